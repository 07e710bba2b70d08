//! Commits that exist nowhere else: no other branch, tag or remote-tracking ref reaches them.
//! `refs/sexton/*` does not count: a rescue is no reason to delete the branch it rescued.

use std::collections::HashSet;

use git2::{ErrorCode, Oid, ReferenceType, Repository, Sort};

/// The commits reachable from `tips` that no branch other than `own_branch` (its full name), no tag and no
/// remote-tracking ref reaches; children before their parents.
pub(crate) fn own_commits(
    repository: &Repository,
    tips: &[Oid],
    own_branch: Option<&[u8]>,
) -> Result<Vec<Oid>, git2::Error> {
    // The usual case, without a look at any object: the worktree is where some branch is.
    let named = find_targets(repository, own_branch)?;
    if tips.iter().all(|tip| named.contains(tip)) {
        return Ok(Vec::new());
    }
    let elsewhere = find_others(repository, own_branch)?;
    let tips: Vec<Oid> = tips.iter().copied().filter(|tip| !elsewhere.contains(tip)).collect();
    if tips.is_empty() {
        return Ok(Vec::new());
    }
    let mut walk = repository.revwalk()?;
    walk.set_sorting(Sort::TOPOLOGICAL)?;
    for tip in tips {
        walk.push(tip)?;
    }
    for other in elsewhere {
        walk.hide(other)?;
    }
    walk.collect()
}

/// The refs that count. Others are not even read: there is one for each rescue.
const COUNTING: [&str; 3] = ["refs/heads/*", "refs/tags/*", "refs/remotes/*"];

/// What other branches, tags and remote-tracking refs name, commit or not.
fn find_targets(repository: &Repository, own_branch: Option<&[u8]>) -> Result<HashSet<Oid>, git2::Error> {
    let mut targets = HashSet::new();
    for kind in COUNTING {
        for reference in repository.references_glob(kind)? {
            let reference = reference?;
            if Some(reference.name_bytes()) != own_branch {
                targets.extend(reference.target());
            }
        }
    }
    Ok(targets)
}

/// The commits that other branches, tags and remote-tracking refs point to.
fn find_others(repository: &Repository, own_branch: Option<&[u8]>) -> Result<HashSet<Oid>, git2::Error> {
    let mut others = HashSet::new();
    for reference in repository.references()? {
        let reference = reference?;
        let counts = reference.is_branch() || reference.is_tag() || reference.is_remote();
        // A symbolic one is only another name: what it names counts, unless that is the own branch.
        let is_name = reference.kind() == Some(ReferenceType::Symbolic);
        if !counts || is_name || Some(reference.name_bytes()) == own_branch {
            continue;
        }
        match reference.peel_to_commit() {
            Ok(commit) => {
                others.insert(commit.id());
            }
            // A tag of a file, or a ref to something that is gone, reaches no commit.
            Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::Peel) => {}
            Err(error) if error.code() == ErrorCode::InvalidSpec => {}
            Err(error) => return Err(error),
        }
    }
    Ok(others)
}
