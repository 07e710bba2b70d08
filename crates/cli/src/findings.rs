//! What `doctor` can find: each check looks at one thing and says what it saw and what to do.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sexton_core::Query;
use sexton_core::store::{Access, Damage};

use crate::backups::find_backups;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use sexton_embed::remember_gap;
use sexton_embed::{find_danger, require_state_dir};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Good,
    /// It was wrong, and is right now.
    Mended,
    /// Worth knowing.
    Notice,
    /// Wrong.
    Problem,
    /// The store can only be read.
    StoreUnusable,
}

impl Severity {
    /// The word for it.
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

/// Something that a check saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What was looked at.
    pub subject: &'static str,
    /// What was seen.
    pub what: String,
    /// What to do about it.
    pub cure: Option<String>,
}

impl Finding {
    /// Something that was seen.
    pub(crate) fn new(severity: Severity, subject: &'static str, what: impl Into<String>) -> Finding {
        Finding { severity, subject, what: what.into(), cure: None }
    }

    /// The same finding, with what to do about it.
    pub(crate) fn cure(mut self, cure: impl Into<String>) -> Finding {
        self.cure = Some(cure.into());
        self
    }

    /// The exit code it calls for.
    pub fn exit(&self) -> Exit {
        match self.severity {
            Severity::Good | Severity::Mended | Severity::Notice => Exit::DONE,
            Severity::Problem => Exit::FAILED,
            Severity::StoreUnusable => Exit::STORE_UNUSABLE,
        }
    }
}

/// Whether others could change what is in the state directory, or read it.
pub fn check_permissions(context: &Context<'_>) -> Vec<Finding> {
    let dir = context.state_dir();
    let problem = |what| Finding::new(Severity::Problem, "permissions", what);
    match find_danger(dir) {
        Err(error) => return vec![problem(format!("cannot examine {}: {error}", dir.display()))],
        Ok(Some(danger)) => return vec![problem(danger.what).cure(danger.cure)],
        Ok(None) => {}
    }
    let open: Vec<_> = exposed_files(dir);
    if open.is_empty() {
        return vec![Finding::new(
            Severity::Good,
            "permissions",
            format!("{} is yours alone", dir.display()),
        )];
    }
    let findings = open.into_iter().map(|path| {
        let cure = format!("chmod 600 {} (or `sexton doctor --repair`)", path.display());
        problem(format!("{} can be read or written by others", path.display())).cure(cure)
    });
    findings.collect()
}

/// Takes the rights of others away from the state directory's own files.
pub fn repair_permissions(context: &Context<'_>) -> Result<Vec<Finding>, Failure> {
    let mut mended = Vec::new();
    for path in exposed_files(context.state_dir()) {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(|error| {
            Failure::new(format!("cannot change the mode of {}: {error}", path.display()))
        })?;
        mended.push(Finding::new(
            Severity::Mended,
            "permissions",
            format!("{} is private now", path.display()),
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

/// File systems on which locks and syncs do not mean what they should, by their magic numbers.
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

/// Whether the state directory lies on a network file system.
#[cfg(target_os = "linux")]
pub fn check_filesystem(context: &Context<'_>) -> Option<Finding> {
    let existing = context.state_dir().ancestors().find(|dir| dir.exists())?;
    let found = rustix::fs::statfs(existing).ok()?;
    // The kernel's numbers have 32 bits; the type that carries them differs between platforms.
    let magic = u32::try_from(found.f_type & 0xffff_ffff).ok()?;
    let (_, name) = NETWORK_FILESYSTEMS.into_iter().find(|(known, _)| *known == magic)?;
    let what = format!("{} is on {name}, where locks and syncs cannot be relied on", existing.display());
    let cure = "give `--state-dir` (or SEXTON_STATE_DIR) a directory on a local disk";
    Some(Finding::new(Severity::Problem, "file system", what).cure(cure))
}

/// Whether the state directory lies on a network file system; only Linux tells.
#[cfg(not(target_os = "linux"))]
pub fn check_filesystem(_: &Context<'_>) -> Option<Finding> {
    None
}

/// Reads the whole store.
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
    if report.damage.is_empty() {
        let what = match info.uuid {
            Some(_) => format!("{} records in {}, all whole", report.records, info.path.display()),
            None => format!("nothing is recorded yet in {}", info.path.display()),
        };
        return vec![Finding::new(Severity::Good, "store", what)];
    }
    let newest = find_backups(&context.backup_dir(&info), &info.path)
        .ok()
        .and_then(|backups| backups.into_iter().next());
    let restore = newest.map(|backup| format!(", or `sexton restore {}`", backup.path.display()));
    let cure = format!("`sexton doctor --repair` keeps every readable record{}", restore.unwrap_or_default());
    report.damage.iter().map(|damage| of_damage(damage, &cure)).collect()
}

fn of_damage(damage: &Damage, cure: &str) -> Finding {
    if damage.harmless {
        return Finding::new(Severity::Notice, "store", damage.to_string());
    }
    Finding::new(Severity::StoreUnusable, "store", damage.to_string()).cure(cure)
}

fn of_failure(subject: &'static str, failure: &Failure) -> Finding {
    let severity = match failure.exit {
        Exit::STORE_UNUSABLE => Severity::StoreUnusable,
        _ => Severity::Problem,
    };
    let finding = Finding::new(severity, subject, failure.message.clone());
    Finding { cure: failure.hint.clone(), ..finding }
}

/// Sets damage aside and makes the store writable again.
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
        .map(|damage| Finding::new(Severity::Mended, "store", format!("set aside: {damage}")))
        .collect();
    let what = format!("{} records kept; what was damaged is in {}", report.kept, quarantine.display());
    findings.push(Finding::new(Severity::Mended, "store", what));
    Ok(findings)
}

/// Whether records lie in the future: then a clock was wrong, and ages and retention with it.
pub async fn check_clock(context: &Context<'_>) -> Option<Finding> {
    let store = context.open_store_as_it_is(Access::Read).ok()?;
    let newest = store.list(&Query::all().limit(1)).await.ok()?.sessions.into_iter().next()?;
    if newest.created_at.as_nanoseconds() <= context.now.as_nanoseconds() {
        return None;
    }
    let what = format!("session {} was made in the future, at {}", newest.id, newest.created_at);
    Some(Finding::new(Severity::Notice, "clock", what).cure("check this machine's clock"))
}

/// Which probe sees processes here, and what it can promise.
pub fn check_probe(context: &Context<'_>) -> Finding {
    let probe = match context.open_probe() {
        Ok(probe) => probe,
        Err(error) => return of_failure("probe", &error.into()),
    };
    let can = probe.capabilities();
    let promise = |held: bool, strong: &'static str, weak: &'static str| if held { strong } else { weak };
    let what = format!(
        "{}: {}; {}; {}",
        probe.name(),
        promise(
            can.handle,
            "signals through handles",
            "no handles: a window of microseconds before a signal"
        ),
        promise(can.exact_identity, "exact identities", "weak identities: what does not match is left alone"),
        promise(can.cgroup, "control groups can be made", "no control groups"),
    );
    let severity = if can.handle && can.exact_identity { Severity::Good } else { Severity::Notice };
    Finding::new(severity, "probe", what)
}
