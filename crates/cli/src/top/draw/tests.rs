//! Snapshots of the whole screen at several sizes.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::Map;
use sexton_core::session::{Exit, Log, Recovery, Worktree};
use sexton_core::worktree::{PathChange, Rescue, RescueDetails, RescueEntry, RescuedPath};
use sexton_core::{Host, OsText, ProcessIdentity, Session, SessionId, Status, Time};

use super::super::meter::Figures;
use super::super::state::{LogView, Notice, RescueView, Row};
use super::*;
use crate::probing::Observed;

fn time(text: &str) -> Time {
    text.parse().unwrap()
}

struct Sample {
    name: &'static str,
    status: Status,
    created: &'static str,
    usage: Option<(f64, u64, usize)>,
    tail: &'static [&'static str],
}

fn row(number: usize, sample: &Sample) -> Row {
    let host = Host::new("m", "h");
    let id: SessionId = format!("{number:04}abcdefghijkl").parse().unwrap();
    let mut session = Session::new(id, host, time(sample.created));
    session.name = Some(sample.name.to_owned()).filter(|name| !name.is_empty());
    session.ticket = Some(format!("T-{}", 101 + number));
    session.status = sample.status;
    session.command = ["claude", "-p", "work on it until it is done"].map(OsText::from).to_vec();
    session.cwd = Some("/home/ann/project".into());
    session.process = Some(ProcessIdentity::of_pid(4000 + u32::try_from(number).unwrap()));
    session.log = Some(Log { path: "/log".into(), stderr_path: None, extra: Map::new() });
    let observed = sample.status.is_active().then_some(Observed::Alive);
    let figures = sample.usage.map(|(cpu, memory, processes)| Figures { processes, cpu: Some(cpu), memory });
    Row { session, observed, figures, tail: sample.tail.iter().map(|&line| line.to_owned()).collect() }
}

const SAMPLES: [Sample; 5] = [
    Sample {
        name: "parser",
        status: Status::Running,
        created: "2026-01-02T03:04:05Z",
        usage: Some((134.2, 812 << 20, 6)),
        tail: &["$ cargo test", "running 212 tests", "test parser::nested … ok"],
    },
    Sample {
        name: "docs",
        status: Status::Running,
        created: "2026-01-02T02:58:05Z",
        usage: Some((3.0, 96 << 20, 2)),
        tail: &["Writing docs/usage.md"],
    },
    Sample { name: "", status: Status::Starting, created: "2026-01-02T03:05:00Z", usage: None, tail: &[] },
    Sample {
        name: "a-name-that-is-rather-long-for-a-table",
        status: Status::Completed,
        created: "2026-01-01T20:00:00Z",
        usage: None,
        tail: &["All 212 tests pass. 日本語 works too."],
    },
    Sample {
        name: "bench",
        status: Status::Orphaned,
        created: "2025-12-31T03:04:05Z",
        usage: None,
        tail: &["iteration 7"],
    },
];

fn state() -> State {
    let mut state = State::new(
        true,
        String::new(),
        "/home/ann/.local/state/sexton/sessions.db".into(),
        time("2026-01-02T03:05:05Z"),
    );
    let mut rows: Vec<_> = SAMPLES.iter().enumerate().map(|(number, sample)| row(number, sample)).collect();
    rows[1].observed = Some(Observed::Gone);
    rows[3].session.exit = Some(Exit::exited(0));
    let path = OsText::from("/home/ann/.local/state/sexton/worktrees/project-1a2b3c4d/0004abcdefghijkl");
    let branch = Some("sexton/0004abcdefghijkl".to_owned());
    rows[4].session.worktree =
        Some(Worktree { path, root: None, repo: None, branch, base: None, extra: Map::new() });
    rows[4].session.recovery = Some(Recovery {
        cause: "owner_dead".to_owned(),
        rescue_ref: Some("refs/sexton/rescue/0004abcdefghijkl".to_owned()),
        ..serde_json::from_str(r#"{"cause": ""}"#).unwrap()
    });
    state.replace_rows(rows);
    state.home = Some("/home/ann".into());
    state
}

fn shown(state: &mut State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn the_list_at_80_by_24() {
    insta::assert_snapshot!(shown(&mut state(), 80, 24));
}

#[test]
fn the_list_at_120_by_30() {
    let mut state = state();
    state.step(4);
    insta::assert_snapshot!(shown(&mut state, 120, 30));
}

#[test]
fn the_list_at_200_by_60() {
    insta::assert_snapshot!(shown(&mut state(), 200, 60));
}

#[test]
fn filter_prompt_and_notice_are_on_the_last_line() {
    let mut state = state();
    let last = |state: &mut State| shown(state, 80, 12).lines().last().unwrap_or_default().to_owned();
    let mut lines = vec![last(&mut state)];
    state.prompt = Some(Prompt::Stop(state.rows[0].session.id.clone()));
    lines.push(last(&mut state));
    state.prompt = Some(Prompt::Filter);
    state.filter = "pars".to_owned();
    lines.push(last(&mut state));
    state.prompt = None;
    state.notice = Some(Notice { text: "parser is stopped".to_owned(), is_error: false });
    lines.push(last(&mut state));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn empty_list_shows_a_hint() {
    let mut state = state();
    let mut pages = Vec::new();
    state.filter = "nothing like it".to_owned();
    pages.push(shown(&mut state, 80, 8));
    state.filter.clear();
    state.replace_rows(Vec::new());
    pages.push(shown(&mut state, 80, 8));
    state.all = false;
    pages.push(shown(&mut state, 80, 8));
    insta::assert_snapshot!(pages.join("\n"));
}

#[test]
fn log_view_fills_the_screen() {
    let mut state = state();
    let lines = (1..=30).map(|number| format!("line {number} {}", "and more ".repeat(number))).collect();
    let session = state.rows[0].session.id.clone();
    state.view = View::Log(LogView { session, title: "parser".to_owned(), lines, is_open: false, back: 0 });
    let following = shown(&mut state, 80, 12);
    let View::Log(log) = &mut state.view else { panic!("no log") };
    log.back = 1000;
    let first = shown(&mut state, 80, 12);
    insta::assert_snapshot!(format!("{following}\n{first}"));
}

#[test]
fn rescue_view_lists_paths() {
    let mut state = state();
    let session = state.rows[4].session.id.clone();
    let reference = format!("refs/sexton/rescue/{session}");
    let rescue = Rescue { reference, commit: "c".repeat(40), files: 3 };
    let entry = RescueEntry { session, created_at: time("2026-01-02T01:05:05Z"), rescue, host: None };
    let path = |path: &str, change| RescuedPath { path: path.into(), change };
    let paths = vec![
        path("src/main.rs", PathChange::Modified),
        path("src/new.rs", PathChange::Added),
        path("old\nname", PathChange::Deleted),
    ];
    let head = Some("0123456789abcdef0123456789abcdef01234567".to_owned());
    let branch = Some("sexton/0004abcdefghijkl".to_owned());
    let details = RescueDetails { entry, branch, head, paths, left_out: Vec::new() };
    state.view = View::Rescue(Box::new(RescueView { title: "bench".to_owned(), details, down: 0 }));
    insta::assert_snapshot!(shown(&mut state, 80, 12));
}

#[test]
fn help_fits_a_small_terminal() {
    let mut state = state();
    state.view = View::Help;
    let page = shown(&mut state, 80, 24);
    assert!(page.contains("this page") && page.contains("200%"), "{page}");
    insta::assert_snapshot!(page);
}

#[test]
fn any_size_can_be_drawn() {
    for (width, height) in [(1, 1), (3, 2), (20, 5), (39, 17), (80, 18), (300, 4), (500, 200)] {
        let mut state = state();
        shown(&mut state, width, height);
        state.view = View::Help;
        shown(&mut state, width, height);
        let session = state.rows[0].session.id.clone();
        let lines = vec!["日本語 ".repeat(50); 20];
        state.view = View::Log(LogView { session, title: "x".to_owned(), lines, is_open: true, back: 3 });
        shown(&mut state, width, height);
    }
}

#[test]
fn selected_row_stays_on_the_screen() {
    let mut state = state();
    let many = (0..200).map(|number| row(number, &SAMPLES[number % 5])).collect();
    state.replace_rows(many);
    state.step(150);
    let page = shown(&mut state, 80, 24);
    assert!(page.contains('▸'), "{page}");
    state.step(-3);
    let after = shown(&mut state, 80, 24);
    assert_eq!(page.lines().nth(3), after.lines().nth(3), "the list does not move under the cursor");
}
