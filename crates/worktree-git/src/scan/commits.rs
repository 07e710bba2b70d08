//! Commits that exist nowhere else: no other branch, tag or remote-tracking ref reaches them. `refs/sexton/*`
//! does not count: a rescue is no reason to delete the branch it rescued.

use std::collections::HashSet;

use git2::{ErrorCode, Oid, Repository, Sort};

use crate::every_ref::{self, Target};

/// Returns the commits reachable from `tips` that no branch other than `own_branch` (its full name), no tag
/// and no remote-tracking ref reaches; children before their parents.
pub(crate) fn own_commits(
    repository: &Repository,
    tips: &[Oid],
    own_branch: Option<&[u8]>,
) -> Result<Vec<Oid>, git2::Error> {
    // The usual case, without reading any object: some other ref points to the same commit.
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

/// The refs that count. Others are not read: there is one for each rescue.
const COUNTING: [&str; 3] = ["refs/heads", "refs/tags", "refs/remotes"];

/// Returns the targets of other branches, tags and remote-tracking refs, whether commits or not. A symbolic
/// ref is skipped: its target counts by itself, unless that is the own branch.
fn find_targets(repository: &Repository, own_branch: Option<&[u8]>) -> Result<HashSet<Oid>, git2::Error> {
    let refs = every_ref::list(repository.commondir(), &COUNTING)
        .map_err(|error| git2::Error::from_str(&format!("cannot read its refs: {error}")))?;
    let others = refs.into_iter().filter(|(name, _)| Some(&**name) != own_branch);
    Ok(others
        .filter_map(|(_, target)| match target {
            Target::Object(oid) => Some(oid),
            Target::Name(_) | Target::Broken => None,
        })
        .collect())
}

/// Returns the commits that these objects are or point to. An object that cannot be found is skipped: it
/// reaches nothing, so no commit is wrongly considered safe.
fn find_commits(repository: &Repository, named: &HashSet<Oid>) -> Result<HashSet<Oid>, git2::Error> {
    let mut commits = HashSet::new();
    for oid in named {
        match repository.find_object(*oid, None).and_then(|object| object.peel_to_commit()) {
            Ok(commit) => {
                commits.insert(commit.id());
            }
            // A tag of a blob, or a ref to a missing object.
            Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::Peel) => {}
            Err(error) if error.code() == ErrorCode::InvalidSpec => {}
            Err(error) => return Err(error),
        }
    }
    Ok(commits)
}
