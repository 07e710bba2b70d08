//! Commits that exist nowhere else: no other branch, tag or remote-tracking ref reaches them.
//! `refs/sexton/*` does not count: a rescue is no reason to delete the branch it rescued.

use std::collections::HashSet;

use git2::{ErrorCode, Oid, Repository, Sort};

use crate::every_ref::{self, Target};

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
    let elsewhere = find_commits(repository, &named)?;
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
const COUNTING: [&str; 3] = ["refs/heads", "refs/tags", "refs/remotes"];

/// What other branches, tags and remote-tracking refs name, commit or not. A symbolic one is only another name: what
/// it names counts, unless that is the own branch.
fn find_targets(repository: &Repository, own_branch: Option<&[u8]>) -> Result<HashSet<Oid>, git2::Error> {
    let refs = every_ref::list(repository.commondir(), &COUNTING)
        .map_err(|error| git2::Error::from_str(&format!("its refs cannot be read: {error}")))?;
    let others = refs.into_iter().filter(|(name, _)| Some(&**name) != own_branch);
    Ok(others
        .filter_map(|(_, target)| match target {
            Target::Object(oid) => Some(oid),
            Target::Name(_) | Target::Broken => None,
        })
        .collect())
}

/// The commits that these are, or name. What cannot be found reaches nothing, and makes nobody believe that
/// something is safe.
fn find_commits(repository: &Repository, named: &HashSet<Oid>) -> Result<HashSet<Oid>, git2::Error> {
    let mut commits = HashSet::new();
    for oid in named {
        match repository.find_object(*oid, None).and_then(|object| object.peel_to_commit()) {
            Ok(commit) => {
                commits.insert(commit.id());
            }
            // A tag of a file, or a ref to something that is gone.
            Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::Peel) => {}
            Err(error) if error.code() == ErrorCode::InvalidSpec => {}
            Err(error) => return Err(error),
        }
    }
    Ok(commits)
}
