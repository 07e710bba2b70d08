//! The binary of the previous release, for the part of the campaign that runs two releases on one store. It
//! is built from its commit once, which takes minutes, and kept in the target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sexton_workspace::{root, target_dir};

use crate::Result;

/// The commit of the previous release.
const COMMIT: &str = "469f7bea71d38559be59df0f4a2db65cfcd51709";

/// The variable that names a binary that was built elsewhere, for this program and for the campaign.
pub(crate) const VARIABLE: &str = "SEXTON_PREVIOUS";

/// Returns the binary if it exists.
pub(crate) fn find() -> Result<Option<PathBuf>> {
    if let Some(given) = std::env::var_os(VARIABLE) {
        let given = PathBuf::from(given);
        require_runs(&given)?;
        return Ok(Some(given));
    }
    let kept = kept();
    Ok(kept.is_file().then_some(kept))
}

/// Returns the binary, and builds it first if it does not exist.
pub(crate) fn require() -> Result<PathBuf> {
    if let Some(found) = find()? {
        return Ok(found);
    }
    require_commit()?;
    println!("building the previous release ({}), which takes minutes", &COMMIT[..7]);
    build()?;
    require_runs(&kept())?;
    Ok(kept())
}

fn directory() -> PathBuf {
    target_dir().join("previous-release")
}

/// The name contains the commit: another previous release is another file.
fn kept() -> PathBuf {
    directory().join(format!("sexton-{}", &COMMIT[..7]))
}

fn require_commit() -> Result {
    let known = Command::new("git")
        .current_dir(root())
        .args(["cat-file", "-e", &format!("{COMMIT}^{{commit}}")])
        .stderr(Stdio::null())
        .status();
    if known.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(format!(
        "the previous release cannot be built: commit {COMMIT} is not in this checkout; `git fetch --unshallow` \
         gets it, or set {VARIABLE} to a binary of that release"
    )
    .into())
}

fn build() -> Result {
    let (source, target) = (directory().join("source"), directory().join("target"));
    if source.exists() {
        fs::remove_dir_all(&source)?;
    }
    fs::create_dir_all(&source)?;
    unpack(&source)?;
    let built = Command::new(env!("CARGO"))
        .current_dir(&source)
        .args(["build", "--release", "--locked", "--bin", "sexton", "--target-dir"])
        .arg(&target)
        .status()?;
    if !built.success() {
        return Err("the previous release cannot be built".into());
    }
    // Written completely or not at all: a partial copy must not be taken for the binary.
    let unfinished = directory().join("unfinished");
    fs::copy(target.join("release/sexton"), &unfinished)?;
    fs::rename(&unfinished, kept())?;
    for leftover in [source, target] {
        fs::remove_dir_all(leftover)?;
    }
    Ok(())
}

/// Extracts the files of the commit into `source`.
fn unpack(source: &Path) -> Result {
    let mut archive = Command::new("git")
        .current_dir(root())
        .args(["archive", "--format=tar", COMMIT])
        .stdout(Stdio::piped())
        .spawn()?;
    let bytes = archive.stdout.take().ok_or("git has no output")?;
    let unpacked = Command::new("tar").args(["-x", "-C"]).arg(source).stdin(bytes).status()?;
    if archive.wait()?.success() && unpacked.success() {
        return Ok(());
    }
    Err("the source of the previous release cannot be unpacked".into())
}

fn require_runs(program: &Path) -> Result {
    let output = Command::new(program).arg("--version").output();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match version {
        Ok(version) if version.starts_with("sexton ") => Ok(()),
        Ok(version) => Err(format!("{} is not sexton: it prints `{version}`", program.display()).into()),
        Err(error) => Err(format!("{} cannot be executed: {error}", program.display()).into()),
    }
}
