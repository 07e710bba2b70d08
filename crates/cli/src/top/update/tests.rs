//! Tests every key without a terminal.

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

fn append_log(state: &mut State, lines: &[&str], open: Option<&str>, is_anew: bool) {
    let lines = lines.iter().map(|&line| line.to_owned()).collect();
    let part = LogPart { lines, open: open.map(str::to_owned), is_anew };
    update(state, Event::Log(part));
}

fn selected(state: &State) -> &str {
    state.selected().map_or("", Row::title)
}

fn id(state: &State, name: &str) -> SessionId {
    state.rows.iter().find(|row| row.title() == name).unwrap().session.id.clone()
}

#[test]
fn keys_move_the_selection_within_the_list() {
    let mut state = three();
    assert_eq!(selected(&state), "parser");
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
        assert_eq!(selected(&state), expected, "after {key:?}");
    }
}

#[test]
fn selected_session_stays_selected_when_the_list_changes() {
    let mut state = three();
    press(&mut state, KeyCode::Down);
    let mut rows = state.rows.clone();
    rows.insert(0, row("newer", Status::Running));
    update(&mut state, Event::Records(rows));
    assert_eq!(selected(&state), "docs");
    let left: Vec<_> = state.rows.iter().filter(|row| row.title() != "docs").cloned().collect();
    update(&mut state, Event::Records(left));
    assert_eq!(selected(&state), "bench", "the position in the list is kept");
    update(&mut state, Event::Records(Vec::new()));
    assert!(state.selected().is_none());
    for key in [KeyCode::Down, KeyCode::Enter, KeyCode::Char('s'), KeyCode::Char('r')] {
        assert_eq!(press(&mut state, key), None, "no session is selected");
    }
}

#[test]
fn filter_is_applied_while_it_is_typed() {
    let mut state = three();
    press(&mut state, KeyCode::Char('/'));
    type_text(&mut state, "BENCQ");
    assert!(state.shown().is_empty());
    press(&mut state, KeyCode::Backspace);
    assert_eq!(selected(&state), "bench", "case does not matter");
    assert_eq!(press(&mut state, KeyCode::Enter), None);
    assert_eq!((state.prompt.as_ref(), state.filter.as_str()), (None, "BENC"));
    press(&mut state, KeyCode::Esc);
    assert_eq!((state.shown().len(), selected(&state)), (3, "bench"));
}

#[test]
fn filter_matches_name_id_ticket_status_and_command() {
    let mut state = three();
    state.rows[1].session.ticket = Some("T-77".to_owned());
    let by_id = id(&state, "docs").to_string();
    for (filter, found) in [("t-77", "docs"), ("failed", "bench"), ("agent pars", "parser"), (&by_id, "docs")]
    {
        state.filter = filter.to_owned();
        state.select(None);
        let shown: Vec<_> = state.shown().iter().map(|row| row.title().to_owned()).collect();
        assert_eq!(shown, [found], "{filter}");
    }
}

#[test]
fn keys_are_text_in_the_filter_prompt() {
    let mut state = three();
    press(&mut state, KeyCode::Char('/'));
    type_text(&mut state, "qsa?");
    assert_eq!(state.filter, "qsa?");
    press(&mut state, KeyCode::Esc);
    assert_eq!((state.filter.as_str(), &state.prompt), ("", &None));
}

#[test]
fn stop_requires_confirmation_with_y() {
    let mut state = three();
    press(&mut state, KeyCode::Down);
    let docs = id(&state, "docs");
    for key in [KeyCode::Char('n'), KeyCode::Enter, KeyCode::Esc, KeyCode::Char('Y'), KeyCode::Char('s')] {
        assert_eq!(press(&mut state, KeyCode::Char('s')), None);
        assert_eq!(state.prompt, Some(Prompt::Stop(docs.clone())));
        assert_eq!(press(&mut state, key), None, "{key:?} is not a confirmation");
        assert_eq!(state.prompt, None);
    }
    press(&mut state, KeyCode::Char('s'));
    assert_eq!(press(&mut state, KeyCode::Char('y')), Some(Effect::Stop(docs)));
    update(&mut state, Event::Stopped(Ok("docs is stopped".to_owned())));
    assert_eq!(state.notice, Some(Notice { text: "docs is stopped".to_owned(), is_error: false }));
}

#[test]
fn confirmation_applies_to_the_session_of_the_prompt() {
    let mut state = three();
    let parser = id(&state, "parser");
    press(&mut state, KeyCode::Char('s'));
    // The list changes while the prompt is open.
    let mut rows = state.rows.clone();
    rows.insert(0, row("newer", Status::Running));
    rows.retain(|row| row.title() != "parser");
    update(&mut state, Event::Records(rows));
    assert_eq!(press(&mut state, KeyCode::Char('y')), Some(Effect::Stop(parser)));
}

#[test]
fn ended_session_cannot_be_stopped() {
    let mut state = three();
    press(&mut state, KeyCode::End);
    assert_eq!(press(&mut state, KeyCode::Char('s')), None);
    assert_eq!(state.prompt, None);
    assert_eq!(state.notice.as_ref().unwrap().text, "bench has already ended (failed)");
    press(&mut state, KeyCode::Up);
    assert_eq!(state.notice, None, "the next key clears the notice");
}

#[test]
fn log_is_followed_until_it_is_closed() {
    let mut state = three();
    assert_eq!(press(&mut state, KeyCode::Char('l')), Some(Effect::Follow(id(&state, "parser"))));
    append_log(&mut state, &["one", "two"], None, true);
    append_log(&mut state, &["three"], None, false);
    let View::Log(log) = &state.view else { panic!("no log") };
    assert_eq!((log.lines.len(), log.back), (3, 0));
    press(&mut state, KeyCode::Up);
    append_log(&mut state, &["four", "five"], None, false);
    let View::Log(log) = &state.view else { panic!("no log") };
    assert_eq!(log.back, 3, "the same lines stay visible");
    press(&mut state, KeyCode::Char('G'));
    let View::Log(log) = &state.view else { panic!("no log") };
    assert_eq!(log.back, 0);
    assert_eq!(press(&mut state, KeyCode::Char('q')), Some(Effect::Unfollow), "q goes back first");
    assert!(matches!(state.view, View::List));
    assert_eq!(press(&mut state, KeyCode::Char('q')), Some(Effect::Quit));
}

#[test]
fn followed_log_is_bounded() {
    let mut state = three();
    press(&mut state, KeyCode::Enter);
    for number in 0..3 {
        append_log(&mut state, &vec![number.to_string().as_str(); KEPT_LINES / 2 + 1], None, false);
    }
    let View::Log(log) = &state.view else { panic!("no log") };
    assert_eq!((log.lines.len(), log.lines[0].as_str()), (KEPT_LINES, "1"));
}

#[test]
fn incomplete_line_is_shown_and_continued() {
    let mut state = three();
    press(&mut state, KeyCode::Enter);
    append_log(&mut state, &["one"], Some("tw"), true);
    append_log(&mut state, &["two"], Some("th"), false);
    append_log(&mut state, &[], Some("three?"), false);
    let View::Log(view) = &state.view else { panic!("no log") };
    assert_eq!(view.lines, ["one", "two", "three?"]);
    press(&mut state, KeyCode::Up);
    append_log(&mut state, &["three?", "four"], None, false);
    let View::Log(view) = &state.view else { panic!("no log") };
    assert_eq!((view.lines.len(), view.back), (4, 2));
    append_log(&mut state, &["anew"], None, true);
    let View::Log(view) = &state.view else { panic!("no log") };
    assert_eq!((view.lines.as_slice(), view.back), (["anew".to_owned()].as_slice(), 0));
}

#[test]
fn session_without_a_log_shows_a_notice() {
    let mut state = three();
    state.rows[0].session.log = None;
    assert_eq!(press(&mut state, KeyCode::Enter), None);
    assert!(state.notice.as_ref().unwrap().text.contains("has no log"));
}

#[test]
fn missing_rescue_shows_a_notice() {
    let mut state = three();
    let parser = id(&state, "parser");
    assert_eq!(press(&mut state, KeyCode::Char('r')), Some(Effect::FindRescue(parser.clone())));
    update(&mut state, Event::Rescue(parser, Err("there is no rescue".to_owned())));
    assert!(matches!(state.view, View::List));
    assert_eq!(state.notice.as_ref().unwrap().text, "there is no rescue");
}

#[test]
fn finished_sessions_are_toggled() {
    let mut state = three();
    assert_eq!(press(&mut state, KeyCode::Char('a')), Some(Effect::Reload));
    assert!(state.all);
    assert_eq!(press(&mut state, KeyCode::Char('a')), Some(Effect::Reload));
    assert!(!state.all);
}

#[test]
fn control_keys_work_in_every_view() {
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
fn help_opens_and_closes() {
    let mut state = three();
    press(&mut state, KeyCode::Char('?'));
    assert!(matches!(state.view, View::Help));
    assert_eq!(press(&mut state, KeyCode::Char('q')), None, "q goes back first");
    assert!(matches!(state.view, View::List));
}
