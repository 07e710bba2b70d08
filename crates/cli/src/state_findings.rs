//! The checks of `doctor` on the state directory: pending exits, logs and worktrees without a record, and
//! whether the system kills sessions when their user logs out.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sexton_core::recover::{Policy, ProblemKind, Silent, UnreadableExit, clear_strays};
use sexton_core::{Query, Status};
use sexton_supervise::SessionDir;

use crate::context::Context;
use crate::failure::Failure;
use crate::findings::{Finding, Severity};
use crate::problems::find_problem;
use sexton_service::Tools;
use sexton_supervise::{find_host, host_id_path};

/// Checks for exits that are not yet in the store, and for unreadable exit files.
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
                let fix = "`sexton doctor --repair` moves it aside; the session is then recovered without it";
                findings.push(Finding::new(Severity::Problem, "exit files", what).fix(fix));
            }
        }
    }
    if readable > 0 {
        let what = match readable {
            1 => "1 exit file is not in the store yet".to_owned(),
            _ => format!("{readable} exit files are not in the store yet"),
        };
        let fix = "the next command that writes to the store commits those of its sessions, such as \
                   `sexton doctor --repair`; others belong to another store of this state directory, or to a \
                   start that version 0.1.0 refused";
        findings.push(Finding::new(Severity::Notice, "exit files", what).fix(fix));
    }
    findings
}

/// Checks for logs of running sessions that cannot be kept below `log.max_bytes`.
pub async fn check_logs(context: &mut Context<'_>) -> Vec<Finding> {
    let Ok(store) = context.open_for_reading() else { return Vec::new() };
    let Ok(active) = store.list(&Query::active()).await else { return Vec::new() };
    let mut findings = Vec::new();
    for session in active.sessions {
        let Some(why) = SessionDir::of(context.state_dir(), &session.id).find_unbounded() else { continue };
        let what =
            format!("the log of session {} exceeds `log.max_bytes`: {}", session.id, why.escape_debug());
        let fix = "move the state directory to a file system that can punch holes (ext4, XFS, Btrfs, tmpfs)";
        findings.push(Finding::new(Severity::Problem, "logs", what).fix(fix));
    }
    findings
}

/// Checks for worktrees that need attention, and for worktrees and log directories without a record.
pub async fn check_worktrees(context: &mut Context<'_>) -> Result<Vec<Finding>, Failure> {
    let mut findings = vec![match context.find_cleaner()? {
        Some(cleaner) => Finding::new(
            Severity::Good,
            "worktrees",
            format!("{}: saves work before removal", cleaner.name()),
        ),
        None => Finding::new(Severity::Notice, "worktrees", "this build has no worktree support"),
    }];
    let tools = context.tools_for_reading()?;
    for session in tools.store.list(&Query::all().with_statuses([Status::CleanupFailed])).await?.sessions {
        let why = session.recovery.and_then(|recovery| recovery.error).unwrap_or_default();
        let what = format!("session {} could not be cleaned up: {why}", session.id);
        let fix = "fix the cause, then run `sexton recover` again";
        findings.push(Finding::new(Severity::Problem, "worktrees", what).fix(fix));
    }
    let recovery_context = tools.recovery_context();
    for problem in
        recovery_context.state_files.known_problems(&recovery_context.store.describe()).unwrap_or_default()
    {
        // The next recovery drops problems that were resolved manually.
        let is_resolved = problem.kind == ProblemKind::Trash
            && problem.path.as_ref().is_some_and(|path| !path.as_path().exists());
        findings.extend(find_problem(&problem).filter(|_| !is_resolved));
    }
    findings.extend(check_hosts(context, &tools).await?);
    let policy = Policy { dry_run: true, ..Policy::from_config(&context.config) };
    let strays = clear_strays(&tools.recovery_context(), &policy, &Silent).await?.sessions;
    let (worktrees, files): (Vec<_>, Vec<_>) = strays.into_iter().partition(|one| one.worktree.is_some());
    for stray in worktrees {
        let fix = "`sexton recover` or `sexton doctor --repair` saves its work and removes it";
        findings.push(Finding::new(Severity::Problem, "worktrees", stray.evidence).fix(fix));
    }
    if !files.is_empty() {
        let what = format!("{} log directories have no record", files.len());
        let fix = "`sexton recover` or `sexton doctor --repair` removes them";
        findings.push(Finding::new(Severity::Notice, "logs", what).fix(fix));
    }
    Ok(findings)
}

/// Checks for records of other hosts. Retention only deletes records of this host.
async fn check_hosts(context: &Context<'_>, tools: &Tools) -> Result<Option<Finding>, Failure> {
    let here = context.here(tools.probe.as_ref()).await?;
    let sessions = tools.store.list(&Query::all()).await?.sessions;
    let elsewhere: Vec<_> = sessions.iter().filter(|session| session.is_elsewhere(&here)).collect();
    let Some(first) = elsewhere.first() else { return Ok(None) };
    let hosts: BTreeSet<_> = elsewhere.iter().map(|session| session.host.hostname.as_str()).collect();
    let hosts: Vec<_> = hosts.into_iter().take(5).collect();
    let (count, name) = (elsewhere.len(), &first.host.hostname);
    let what =
        format!("{count} records belong to other hosts ({}) and are not changed here", hosts.join(", "));
    let fix = format!(
        "if a host is permanently gone, run `sexton forget --host {name}`, then `sexton prune --host {name}`"
    );
    Ok(Some(Finding::new(Severity::Notice, "hosts", what).fix(fix)))
}

/// Checks the host id in the state directory.
pub fn check_host_id(context: &Context<'_>) -> Option<Finding> {
    let error = find_host(context.state_dir()).err()?;
    let fix = "`sexton doctor --repair` moves it aside, and the next session creates a new one";
    Some(Finding::new(Severity::Problem, "host id", error.to_string()).fix(fix))
}

/// Moves unreadable exit files and an unreadable host id aside.
pub fn repair_small_files(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let exits = context.pending_exits();
    for UnreadableExit { session, path, why, .. } in exits.list_unreadable().unwrap_or_default() {
        findings.push(match exits.set_aside(&session) {
            Ok(aside) => {
                let what =
                    format!("{} could not be read ({why}); moved to {}", path.display(), aside.display());
                Finding::new(Severity::Mended, "exit files", what)
            }
            Err(error) => {
                let what = format!("{} cannot be moved aside: {error}", path.display());
                Finding::new(Severity::Problem, "exit files", what)
                    .fix(format!("`sudo rm -rf {}`", path.display()))
            }
        });
    }
    if find_host(context.state_dir()).is_err() {
        let path = host_id_path(context.state_dir());
        let aside = path.with_extension(format!("set-aside-{}", std::process::id()));
        findings.push(match fs::rename(&path, &aside) {
            Ok(()) => {
                let what = format!("{} could not be read; moved to {}", path.display(), aside.display());
                Finding::new(Severity::Mended, "host id", what)
            }
            Err(error) => {
                let what = format!("{} cannot be moved aside: {error}", path.display());
                Finding::new(Severity::Problem, "host id", what)
            }
        });
    }
    findings
}

/// Commits pending exits, and saves and removes strays. Opening the store for writing commits the exits.
pub async fn repair_state(context: &mut Context<'_>) -> Result<Vec<Finding>, Failure> {
    let waiting = context.pending_exits().list().unwrap_or_default().len();
    let tools = context.tools_for_writing()?;
    let committed = waiting.saturating_sub(context.pending_exits().list().unwrap_or_default().len());
    let mut findings = Vec::new();
    if committed > 0 {
        let what = format!("{committed} pending exits were committed");
        findings.push(Finding::new(Severity::Mended, "exit files", what));
    }
    let policy = Policy::from_config(&context.config);
    let mut removed_logs = 0;
    for stray in clear_strays(&tools.recovery_context(), &policy, &Silent).await?.sessions {
        if stray.worktree.is_none() && stray.error.is_none() {
            removed_logs += 1;
            continue;
        }
        let done = match (&stray.error, &stray.rescue_ref) {
            (Some(error), _) => {
                let what = format!("{}; it was kept: {error}", stray.evidence);
                findings.push(Finding::new(Severity::Problem, "worktrees", what));
                continue;
            }
            (None, Some(reference)) => format!("{}; saved as {reference} and removed", stray.evidence),
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

/// The directories of logind's configuration, the one with the highest priority first.
const LOGIND_DIRECTORIES: [&str; 4] =
    ["/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd"];

/// Checks whether logind kills background processes when their user logs out.
pub fn check_logind() -> Option<Finding> {
    let kills = kill_user_processes(LOGIND_DIRECTORIES.map(Path::new).as_slice())?;
    if !kills {
        return None;
    }
    let what = "KillUserProcesses=yes: logind kills sessions when you log out";
    let fix = "run `loginctl enable-linger`, and start sessions with `contain = \"systemd\"`";
    Some(Finding::new(Severity::Notice, "logind", what).fix(fix))
}

/// Returns the effective value of the setting. Drop-in files are read after the main file, in the order of their
/// names, and a file in an earlier directory hides one of the same name in a later directory.
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

/// Returns the last value in a file.
fn last_setting(text: &str) -> Option<bool> {
    let values = text.lines().filter_map(|line| line.trim().strip_prefix("KillUserProcesses="));
    values.map(|value| matches!(value.trim(), "yes" | "true" | "on" | "1")).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_logind_setting_wins() {
        let dir = tempfile::tempdir().unwrap();
        let (etc, lib) = (dir.path().join("etc"), dir.path().join("lib"));
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let effective = || kill_user_processes(&[&etc, &lib]);
        assert_eq!(effective(), None);
        write(etc.join("logind.conf"), "[Login]\n#KillUserProcesses=yes\nKillUserProcesses=no\n");
        assert_eq!(effective(), Some(false));
        write(lib.join("logind.conf.d/50-kill.conf"), "[Login]\nKillUserProcesses=yes\n");
        assert_eq!(effective(), Some(true));
        write(etc.join("logind.conf.d/50-kill.conf"), "[Login]\n");
        assert_eq!(effective(), Some(false), "a file of the same name in /etc hides the other");
    }
}
