//! Every key, without a terminal.

use sexton_core::session::Log;
use sexton_core::{Host, OsText, Session, Status};

use super::*;

fn row(name: &str, status: Status) -> Row {
    let host = Host::new("m", "h");
    let mut session = Session::new(SessionId::random(), host, "2026-01-02T03:04:05Z".parse().unwrap());
    session.name = Some(name.to_owned());
    session.status = status;
    session.command = vec![OsText::from("agent"), OsText::from(name)];
    session.log = Some(Log { path: "/log".into(), stderr_path: None, extra: serde_json::Map::new() });
    Row { session, observed: None, figures: None, tail: Vec::new() }
}

fn state(rows: Vec<Row>) -> State {
    let mut state = State::new(false, String::new(), "/x".into(), "2026-01-02T03:05:05Z".parse().unwrap());
    update(&mut state, Event::Records(rows));
    state
}

fn three() -> State {
    state(vec![row("parser", Status::Running), row("docs", Status::Running), row("bench", Status::Failed)])
}

fn press(state: &mut State, code: KeyCode) -> Option<Effect> {
    update(state, Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn type_text(state: &mut State, text: &str) {
    for character in text.chars() {
        assert_eq!(press(state, KeyCode::Char(character)), None);
    }
}

fn tell_log(state: &mut State, lines: &[&str], open: Option<&str>, is_anew: bool) {
    let lines = lines.iter().map(|&line| line.to_owned()).collect();
    let part = LogPart { lines, open: open.map(str::to_owned), is_anew };
    update(state, Event::Log(part));
}

fn chosen(state: &State) -> &str {
    state.chosen().map_or("", Row::title)
}

fn id(state: &State, name: &str) -> SessionId {
    state.rows.iter().find(|row| row.title() == name).unwrap().session.id.clone()
}

#[test]
fn arrows_and_letters_choose_and_stop_at_the_ends() {
    let mut state = three();
    assert_eq!(chosen(&state), "parser");
    for (key, expected) in [
        (KeyCode::Up, "parser"),
        (KeyCode::Down, "docs"),
        (KeyCode::Char('j'), "bench"),
        (KeyCode::Char('j'), "bench"),
        (KeyCode::Char('k'), "docs"),
        (KeyCode::Char('G'), "bench"),
        (KeyCode::Char('g'), "parser"),
        (KeyCode::PageDown, "docs"),
        (KeyCode::End, "bench"),
        (KeyCode::PageUp, "docs"),
        (KeyCode::Home, "parser"),
    ] {
        assert_eq!(press(&mut state, key), None);
        assert_eq!(chosen(&state), expected, "after {key:?}");
    }
}

#[test]
fn the_chosen_session_stays_chosen_when_others_come_and_go() {
    let mut state = three();
    press(&mut state, KeyCode::Down);
    let mut rows = state.rows.clone();
    rows.insert(0, row("newer", Status::Running));
    update(&mut state, Event::Records(rows));
    assert_eq!(chosen(&state), "docs");
    let left: Vec<_> = state.rows.iter().filter(|row| row.title() != "docs").cloned().collect();
    update(&mut state, Event::Records(left));
    assert_eq!(chosen(&state), "bench", "its place in the list");
    update(&mut state, Event::Records(Vec::new()));
    assert!(state.chosen().is_none());
    for key in [KeyCode::Down, KeyCode::Enter, KeyCode::Char('s'), KeyCode::Char('r')] {
        assert_eq!(press(&mut state, key), None, "there is nothing to do it to");
    }
}

#[test]
fn a_filter_is_applied_as_it_is_typed() {
    let mut state = three();
    press(&mut state, KeyCode::Char('/'));
    type_text(&mut state, "BENCQ");
    assert!(state.shown().is_empty());
    press(&mut state, KeyCode::Backspace);
    assert_eq!(chosen(&state), "bench", "case does not matter");
    assert_eq!(press(&mut state, KeyCode::Enter), None);
    assert_eq!((state.prompt.as_ref(), state.filter.as_str()), (None, "BENC"));
    press(&mut state, KeyCode::Esc);
    assert_eq!((state.shown().len(), chosen(&state)), (3, "bench"));
}

#[test]
fn a_filter_looks_at_name_id_ticket_status_and_command() {
    let mut state = three();
    state.rows[1].session.ticket = Some("T-77".to_owned());
    let by_id = id(&state, "docs").to_string();
    for (filter, found) in [("t-77", "docs"), ("failed", "bench"), ("agent pars", "parser"), (&by_id, "docs")]
    {
        state.filter = filter.to_owned();
        state.choose(None);
        let shown: Vec<_> = state.shown().iter().map(|row| row.title().to_owned()).collect();
        assert_eq!(shown, [found], "{filter}");
    }
}

#[test]
fn keys_are_text_while_a_filter_is_typed() {
    let mut state = three();
    press(&mut state, KeyCode::Char('/'));
    type_text(&mut state, "qsa?");
    assert_eq!(state.filter, "qsa?");
    press(&mut state, KeyCode::Esc);
    assert_eq!((state.filter.as_str(), &state.prompt), ("", &None));
}

#[test]
fn stopping_asks_first_and_only_y_means_yes() {
    let mut state = three();
    press(&mut state, KeyCode::Down);
    let docs = id(&state, "docs");
    for key in [KeyCode::Char('n'), KeyCode::Enter, KeyCode::Esc, KeyCode::Char('Y'), KeyCode::Char('s')] {
        assert_eq!(press(&mut state, KeyCode::Char('s')), None);
        assert_eq!(state.prompt, Some(Prompt::Stop(docs.clone())));
        assert_eq!(press(&mut state, key), None, "{key:?} is no yes");
        assert_eq!(state.prompt, None);
    }
    press(&mut state, KeyCode::Char('s'));
    assert_eq!(press(&mut state, KeyCode::Char('y')), Some(Effect::Stop(docs)));
    update(&mut state, Event::Stopped(Ok("docs is stopped".to_owned())));
    assert_eq!(state.notice, Some(Notice { text: "docs is stopped".to_owned(), is_error: false }));
}

#[test]
fn a_question_is_about_the_session_it_was_asked_of() {
    let mut state = three();
    let parser = id(&state, "parser");
    press(&mut state, KeyCode::Char('s'));
    // The list changes under the question.
    let mut rows = state.rows.clone();
    rows.insert(0, row("newer", Status::Running));
    rows.retain(|row| row.title() != "parser");
    update(&mut state, Event::Records(rows));
    assert_eq!(press(&mut state, KeyCode::Char('y')), Some(Effect::Stop(parser)));
}

#[test]
fn what_has_ended_is_not_stopped() {
    let mut state = three();
    press(&mut state, KeyCode::End);
    assert_eq!(press(&mut state, KeyCode::Char('s')), None);
    assert_eq!(state.prompt, None);
    assert_eq!(state.notice.as_ref().unwrap().text, "bench has ended already (failed)");
    press(&mut state, KeyCode::Up);
    assert_eq!(state.notice, None, "the next key takes the notice away");
}

#[test]
fn a_log_is_followed_until_its_user_goes_back() {
    let mut state = three();
    assert_eq!(press(&mut state, KeyCode::Char('l')), Some(Effect::Follow(id(&state, "parser"))));
    tell_log(&mut state, &["one", "two"], None, true);
    tell_log(&mut state, &["three"], None, false);
    let View::Log(log) = &state.view else { panic!("no log") };
    assert_eq!((log.lines.len(), log.back), (3, 0));
    press(&mut state, KeyCode::Up);
    tell_log(&mut state, &["four", "five"], None, false);
    let View::Log(log) = &state.view else { panic!("no log") };
    assert_eq!(log.back, 3, "who looks back keeps looking at the same lines");
    press(&mut state, KeyCode::Char('G'));
    let View::Log(log) = &state.view else { panic!("no log") };
    assert_eq!(log.back, 0);
    assert_eq!(press(&mut state, KeyCode::Char('q')), Some(Effect::Unfollow), "q goes back first");
    assert!(matches!(state.view, View::List));
    assert_eq!(press(&mut state, KeyCode::Char('q')), Some(Effect::Quit));
}

#[test]
fn a_followed_log_is_bounded() {
    let mut state = three();
    press(&mut state, KeyCode::Enter);
    for number in 0..3 {
        tell_log(&mut state, &vec![number.to_string().as_str(); KEPT_LINES / 2 + 1], None, false);
    }
    let View::Log(log) = &state.view else { panic!("no log") };
    assert_eq!((log.lines.len(), log.lines[0].as_str()), (KEPT_LINES, "1"));
}

#[test]
fn a_line_that_has_not_ended_is_shown_and_goes_on() {
    let mut state = three();
    press(&mut state, KeyCode::Enter);
    tell_log(&mut state, &["one"], Some("tw"), true);
    tell_log(&mut state, &["two"], Some("th"), false);
    tell_log(&mut state, &[], Some("three?"), false);
    let View::Log(view) = &state.view else { panic!("no log") };
    assert_eq!(view.lines, ["one", "two", "three?"]);
    press(&mut state, KeyCode::Up);
    tell_log(&mut state, &["three?", "four"], None, false);
    let View::Log(view) = &state.view else { panic!("no log") };
    assert_eq!((view.lines.len(), view.back), (4, 2));
    tell_log(&mut state, &["anew"], None, true);
    let View::Log(view) = &state.view else { panic!("no log") };
    assert_eq!((view.lines.as_slice(), view.back), (["anew".to_owned()].as_slice(), 0));
}

#[test]
fn a_session_without_a_log_says_so() {
    let mut state = three();
    state.rows[0].session.log = None;
    assert_eq!(press(&mut state, KeyCode::Enter), None);
    assert!(state.notice.as_ref().unwrap().text.contains("has no log"));
}

#[test]
fn a_rescue_that_is_not_there_is_a_notice() {
    let mut state = three();
    let parser = id(&state, "parser");
    assert_eq!(press(&mut state, KeyCode::Char('r')), Some(Effect::FindRescue(parser.clone())));
    update(&mut state, Event::Rescue(parser, Err("there is no rescue".to_owned())));
    assert!(matches!(state.view, View::List));
    assert_eq!(state.notice.as_ref().unwrap().text, "there is no rescue");
}

#[test]
fn finished_sessions_are_asked_for_and_sent_away() {
    let mut state = three();
    assert_eq!(press(&mut state, KeyCode::Char('a')), Some(Effect::Reload));
    assert!(state.all);
    assert_eq!(press(&mut state, KeyCode::Char('a')), Some(Effect::Reload));
    assert!(!state.all);
}

#[test]
fn control_keys_work_everywhere() {
    for prepare in ["", "/", "l", "?", "s"] {
        let mut state = three();
        for key in prepare.chars() {
            press(&mut state, KeyCode::Char(key));
        }
        let mut control =
            |key| update(&mut state, Event::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL)));
        assert_eq!(control('z'), Some(Effect::Suspend));
        assert_eq!(control('c'), Some(Effect::Quit), "after {prepare:?}");
    }
    assert_eq!(update(&mut three(), Event::KeyboardLost), Some(Effect::Quit));
}

#[test]
fn help_comes_and_goes() {
    let mut state = three();
    press(&mut state, KeyCode::Char('?'));
    assert!(matches!(state.view, View::Help));
    assert_eq!(press(&mut state, KeyCode::Char('q')), None, "q goes back first");
    assert!(matches!(state.view, View::List));
}
