//! What `doctor` finds around sessions: ends that wait, logs without a record, worktrees without one, and
//! what the system does to sessions when their user logs out.

use std::fs;
use std::path::{Path, PathBuf};

use sexton_core::recover::{Policy, Silent, clear_strays};
use sexton_core::{Query, Status};

use crate::context::Context;
use crate::failure::Failure;
use crate::findings::{Finding, Severity};

/// Ends that no store has yet, and exit files that cannot be read.
pub fn check_exit_files(context: &Context<'_>) -> Vec<Finding> {
    let exits = context.pending_exits();
    let Ok(waiting) = exits.list() else { return Vec::new() };
    let mut findings = Vec::new();
    let mut readable = 0;
    for id in waiting {
        match exits.load(&id) {
            Ok(_) => readable += 1,
            Err(error) => {
                let path = context.state_dir().join("exits").join(format!("{id}.json"));
                let what = format!("{} cannot be read: {error}", path.display());
                let cure = "look at it, then remove it; the session is recovered as one whose end nobody saw";
                findings.push(Finding::new(Severity::Problem, "exit files", what).cure(cure));
            }
        }
    }
    if readable > 0 {
        let what = format!("{readable} ends wait in exit files for a store that can be written");
        let cure = "the next command that writes commits them (`sexton doctor --repair` is one)";
        findings.push(Finding::new(Severity::Notice, "exit files", what).cure(cure));
    }
    findings
}

/// Worktrees that need somebody, and strays: worktrees and log directories without a record.
pub async fn check_worktrees(context: &mut Context<'_>) -> Result<Vec<Finding>, Failure> {
    let mut findings = vec![match context.find_cleaner() {
        Some(cleaner) => {
            Finding::new(Severity::Good, "worktrees", format!("{}: rescued before removed", cleaner.name()))
        }
        None => Finding::new(Severity::Notice, "worktrees", "this build knows nothing of worktrees"),
    }];
    let tools = context.tools_for_reading()?;
    for session in tools.store.list(&Query::all().with_statuses([Status::CleanupFailed])).await?.sessions {
        let why = session.recovery.and_then(|recovery| recovery.error).unwrap_or_default();
        let what = format!("session {} could not be cleaned up: {why}", session.id);
        let cure = "see to the reason; `sexton recover` tries again";
        findings.push(Finding::new(Severity::Problem, "worktrees", what).cure(cure));
    }
    let policy = Policy { dry_run: true, ..Policy::from_config(&context.config) };
    let strays = clear_strays(&tools.ground(), &policy, &Silent).await?.sessions;
    let (worktrees, files): (Vec<_>, Vec<_>) = strays.into_iter().partition(|one| one.worktree.is_some());
    for stray in worktrees {
        let cure = "`sexton recover` rescues and removes it (so does `sexton doctor --repair`)";
        findings.push(Finding::new(Severity::Problem, "worktrees", stray.evidence).cure(cure));
    }
    if !files.is_empty() {
        let what = format!("{} log directories have no record", files.len());
        let cure = "`sexton recover` removes them (so does `sexton doctor --repair`)";
        findings.push(Finding::new(Severity::Notice, "logs", what).cure(cure));
    }
    Ok(findings)
}

/// Commits waiting ends, and saves and removes strays. Opening the store for writing does the first.
pub async fn repair_yard(context: &mut Context<'_>) -> Result<Vec<Finding>, Failure> {
    let waiting = context.pending_exits().list().unwrap_or_default().len();
    let tools = context.tools_for_writing()?;
    let committed = waiting.saturating_sub(context.pending_exits().list().unwrap_or_default().len());
    let mut findings = Vec::new();
    if committed > 0 {
        let what = format!("{committed} ends were committed");
        findings.push(Finding::new(Severity::Mended, "exit files", what));
    }
    let policy = Policy::from_config(&context.config);
    let mut removed_logs = 0;
    for stray in clear_strays(&tools.ground(), &policy, &Silent).await?.sessions {
        if stray.worktree.is_none() && stray.error.is_none() {
            removed_logs += 1;
            continue;
        }
        let done = match (&stray.error, &stray.rescue_ref) {
            (Some(error), _) => {
                let what = format!("{}, and stays: {error}", stray.evidence);
                findings.push(Finding::new(Severity::Problem, "worktrees", what));
                continue;
            }
            (None, Some(reference)) => format!("{}; rescued as {reference}, and removed", stray.evidence),
            (None, None) => format!("{}; removed", stray.evidence),
        };
        findings.push(Finding::new(Severity::Mended, "worktrees", done));
    }
    if removed_logs > 0 {
        let what = format!("{removed_logs} log directories without a record were removed");
        findings.push(Finding::new(Severity::Mended, "logs", what));
    }
    Ok(findings)
}

/// Where logind's settings are, the later ones first.
const LOGIND_DIRECTORIES: [&str; 4] =
    ["/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd"];

/// Whether the system ends background processes when their user logs out.
pub fn check_logind() -> Option<Finding> {
    let kills = kill_user_processes(LOGIND_DIRECTORIES.map(Path::new).as_slice())?;
    if !kills {
        return None;
    }
    let what = "KillUserProcesses=yes: sessions end when you log out";
    let cure = "`loginctl enable-linger`, and start sessions with `systemd-run --user --scope sexton run …`";
    Some(Finding::new(Severity::Notice, "logind", what).cure(cure))
}

/// What the last setting says; drop-in files come after the main one, in the order of their names, and a
/// file in an earlier directory hides one of the same name in a later.
fn kill_user_processes(directories: &[&Path]) -> Option<bool> {
    let mut drop_ins = std::collections::BTreeMap::new();
    for directory in directories {
        for entry in fs::read_dir(directory.join("logind.conf.d")).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "conf") {
                drop_ins.entry(entry.file_name()).or_insert(path);
            }
        }
    }
    let main = directories.iter().map(|directory| directory.join("logind.conf")).find(|path| path.exists());
    let files: Vec<PathBuf> = main.into_iter().chain(drop_ins.into_values()).collect();
    let settings = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    settings.filter_map(|text| last_setting(&text)).next_back()
}

/// The last value that a file gives.
fn last_setting(text: &str) -> Option<bool> {
    let values = text.lines().filter_map(|line| line.trim().strip_prefix("KillUserProcesses="));
    values.map(|value| matches!(value.trim(), "yes" | "true" | "on" | "1")).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_setting_of_logind_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (etc, lib) = (dir.path().join("etc"), dir.path().join("lib"));
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let look = || kill_user_processes(&[&etc, &lib]);
        assert_eq!(look(), None);
        write(etc.join("logind.conf"), "[Login]\n#KillUserProcesses=yes\nKillUserProcesses=no\n");
        assert_eq!(look(), Some(false));
        write(lib.join("logind.conf.d/50-kill.conf"), "[Login]\nKillUserProcesses=yes\n");
        assert_eq!(look(), Some(true));
        write(etc.join("logind.conf.d/50-kill.conf"), "[Login]\n");
        assert_eq!(look(), Some(false), "a file of the same name in /etc hides the other");
    }
}
