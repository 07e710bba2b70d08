//! The checks of `doctor`. Each one examines one subject and returns what it found and how to fix it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sexton_core::store::{Access, Damage, Format};
use sexton_core::{Query, StoreError};

use crate::backups::find_backups;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use sexton_service::remember_gap;
use sexton_service::{find_danger, require_state_dir};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// No problem.
    Good,
    /// A problem that was just repaired.
    Mended,
    /// Information that needs no action.
    Notice,
    /// A problem.
    Problem,
    /// Damage that makes the store read-only.
    StoreUnusable,
}

impl Severity {
    /// Returns the name, as printed and as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Good => "ok",
            Severity::Mended => "mended",
            Severity::Notice => "notice",
            Severity::Problem => "problem",
            Severity::StoreUnusable => "damage",
        }
    }
}

/// A result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// What was checked.
    pub subject: &'static str,
    /// What was found.
    pub what: String,
    /// How to fix it.
    pub fix: Option<String>,
}

impl Finding {
    /// Creates a finding without a fix.
    pub(crate) fn new(severity: Severity, subject: &'static str, what: impl Into<String>) -> Finding {
        Finding { severity, subject, what: what.into(), fix: None }
    }

    /// Adds how to fix it.
    pub(crate) fn fix(mut self, fix: impl Into<String>) -> Finding {
        self.fix = Some(fix.into());
        self
    }

    /// Returns the exit code for this finding.
    pub fn exit(&self) -> Exit {
        match self.severity {
            Severity::Good | Severity::Mended | Severity::Notice => Exit::DONE,
            Severity::Problem => Exit::FAILED,
            Severity::StoreUnusable => Exit::STORE_UNUSABLE,
        }
    }
}

/// Checks whether other users can read or change the state directory.
pub fn check_permissions(context: &Context<'_>) -> Vec<Finding> {
    let dir = context.state_dir();
    let problem = |what| Finding::new(Severity::Problem, "permissions", what);
    match find_danger(dir) {
        Err(error) => return vec![problem(format!("cannot examine {}: {error}", dir.display()))],
        Ok(Some(danger)) => return vec![problem(danger.what).fix(danger.fix)],
        Ok(None) => {}
    }
    let open: Vec<_> = exposed_files(dir);
    if open.is_empty() {
        return vec![Finding::new(
            Severity::Good,
            "permissions",
            format!("{} is private to you", dir.display()),
        )];
    }
    let findings = open.into_iter().map(|path| {
        let fix = format!("run `chmod 600 {}` or `sexton doctor --repair`", path.display());
        problem(format!("{} is accessible to other users", path.display())).fix(fix)
    });
    findings.collect()
}

/// Removes other users' access to the files in the state directory.
pub fn repair_permissions(context: &Context<'_>) -> Result<Vec<Finding>, Failure> {
    let mut mended = Vec::new();
    for path in exposed_files(context.state_dir()) {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(|error| {
            Failure::new(format!("cannot change the mode of {}: {error}", path.display()))
        })?;
        mended.push(Finding::new(
            Severity::Mended,
            "permissions",
            format!("{} is now private", path.display()),
        ));
    }
    Ok(mended)
}

fn exposed_files(dir: &Path) -> Vec<PathBuf> {
    let me = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let exposed = entries.filter(|entry| {
        let metadata = entry.metadata();
        metadata.is_ok_and(|found| found.is_file() && found.uid() == me && found.mode() & 0o077 != 0)
    });
    exposed.map(|entry| entry.path()).collect()
}

/// File systems on which locks and syncs are unreliable, by their magic numbers.
#[cfg(target_os = "linux")]
const NETWORK_FILESYSTEMS: [(u32, &str); 9] = [
    (0x0000_6969, "NFS"),
    (0x0000_517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x5346_414f, "AFS"),
];

/// Checks whether the state directory is on a network file system.
#[cfg(target_os = "linux")]
pub fn check_filesystem(context: &Context<'_>) -> Option<Finding> {
    let existing = context.state_dir().ancestors().find(|dir| dir.exists())?;
    let found = rustix::fs::statfs(existing).ok()?;
    // The magic numbers have 32 bits; the type of the field differs between platforms.
    let magic = u32::try_from(found.f_type & 0xffff_ffff).ok()?;
    let (_, name) = NETWORK_FILESYSTEMS.into_iter().find(|(known, _)| *known == magic)?;
    let what = format!("{} is on {name}, where locks and syncs are unreliable", existing.display());
    let fix = "set `--state-dir` (or SEXTON_STATE_DIR) to a directory on a local disk";
    Some(Finding::new(Severity::Problem, "file system", what).fix(fix))
}

/// Returns `None`: the file system type is only checked on Linux.
#[cfg(not(target_os = "linux"))]
pub fn check_filesystem(_: &Context<'_>) -> Option<Finding> {
    None
}

/// Checks the whole store.
pub async fn check_store(context: &Context<'_>) -> Vec<Finding> {
    let store = match context.open_store_as_it_is(Access::Read) {
        Ok(store) => store,
        Err(error) => return vec![of_failure("store", &error.into())],
    };
    let info = store.describe();
    let report = match store.check().await {
        Ok(report) => report,
        Err(error) => return vec![of_failure("store", &error.into())],
    };
    let format = match store.format().await {
        Ok(format) => format,
        // Repair does not help: this version must not write to a newer format.
        Err(error @ StoreError::NewerFormat { .. }) => return vec![of_failure("store", &error.into())],
        Err(_) => None,
    };
    if report.damage.is_empty() {
        let what = match info.uuid {
            Some(_) => format!("{} records in {}, no damage", report.records, info.path.display()),
            None => format!("no records yet in {}", info.path.display()),
        };
        let mut findings = vec![Finding::new(Severity::Good, "store", what)];
        findings.extend(format.filter(Format::is_older).map(|format| of_older_format(&format)));
        return findings;
    }
    let newest = find_backups(&context.backup_dir(&info), &info.path)
        .ok()
        .and_then(|backups| backups.into_iter().next());
    let restore = newest.map(|backup| format!(", or `sexton restore {}`", backup.path.display()));
    let fix = format!(
        "run `sexton doctor --repair`, which keeps every readable record{}",
        restore.unwrap_or_default()
    );
    report.damage.iter().map(|damage| of_damage(damage, &fix)).collect()
}

fn of_older_format(format: &Format) -> Finding {
    let Format { found, newest, .. } = format;
    let what = format!("the format is {found}; the newest is {newest}. All commands work with both");
    let fix = "`sexton recover` upgrades it once no supervisor of an older release is running";
    Finding::new(Severity::Notice, "store", what).fix(fix)
}

fn of_damage(damage: &Damage, fix: &str) -> Finding {
    if damage.harmless {
        return Finding::new(Severity::Notice, "store", damage.to_string());
    }
    Finding::new(Severity::StoreUnusable, "store", damage.to_string()).fix(fix)
}

fn of_failure(subject: &'static str, failure: &Failure) -> Finding {
    let severity = match failure.exit {
        Exit::STORE_UNUSABLE => Severity::StoreUnusable,
        _ => Severity::Problem,
    };
    let finding = Finding::new(severity, subject, failure.message.clone());
    Finding { fix: failure.hint.clone(), ..finding }
}

/// Moves damaged data aside and makes the store writable again.
pub async fn repair_store(context: &mut Context<'_>) -> Result<Vec<Finding>, Failure> {
    require_state_dir(context.state_dir())?;
    let store = context.open_store_as_it_is(Access::Write)?;
    if store.damage().iter().any(|damage| !damage.harmless) {
        remember_gap(&store.describe(), context.now)?;
    }
    let report = store.repair(context.now).await?;
    let Some(quarantine) = report.quarantine else {
        return Ok(Vec::new());
    };
    let mut findings: Vec<_> = report
        .quarantined
        .iter()
        .map(|damage| Finding::new(Severity::Mended, "store", format!("moved aside: {damage}")))
        .collect();
    let what = format!("{} records kept; damaged data was moved to {}", report.kept, quarantine.display());
    findings.push(Finding::new(Severity::Mended, "store", what));
    Ok(findings)
}

/// Checks for records from the future: they mean that a clock was wrong, so ages and retention are wrong as well.
pub async fn check_clock(context: &Context<'_>) -> Option<Finding> {
    let store = context.open_store_as_it_is(Access::Read).ok()?;
    let newest = store.list(&Query::all().limit(1)).await.ok()?.sessions.into_iter().next()?;
    if newest.created_at.as_nanoseconds() <= context.now.as_nanoseconds() {
        return None;
    }
    let what = format!("session {} was created in the future, at {}", newest.id, newest.created_at);
    Some(Finding::new(Severity::Notice, "clock", what).fix("check this machine's clock"))
}

/// Reports which probe is in use and what it supports.
pub fn check_probe(context: &Context<'_>) -> Finding {
    let probe = match context.open_probe() {
        Ok(probe) => probe,
        Err(error) => return of_failure("probe", &error.into()),
    };
    let can = probe.capabilities();
    let feature = |held: bool, strong: &'static str, weak: &'static str| if held { strong } else { weak };
    let what = format!(
        "{}: {}; {}; {}",
        probe.name(),
        feature(
            can.handle,
            "signals through handles",
            "no handles: a race of microseconds before each signal"
        ),
        feature(
            can.exact_identity,
            "exact identities",
            "weak identities: processes that do not match are not signalled"
        ),
        feature(can.cgroup, "control groups available", "no control groups"),
    );
    let severity = if can.handle && can.exact_identity { Severity::Good } else { Severity::Notice };
    Finding::new(severity, "probe", what)
}
