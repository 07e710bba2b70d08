//! A rescue: everything in a worktree that exists nowhere else, as one commit under
//! `refs/sexton/rescue/<session>`. It has the form of a stash: `git stash apply <ref>` and `git diff HEAD
//! <ref>` work without Sexton.
//!
//! Architecture invariant: a rescue writes objects and one ref. It does not write to the worktree or its
//! index, and it runs no program. When it returns, everything is durable.

mod compose;
mod keep;
pub(crate) mod manifest;
pub(crate) mod publish;
mod state;
mod tree;

use std::sync::{Mutex, PoisonError};

use sexton_core::worktree::{Rescued, WorktreeOptions};
use sexton_core::{Time, WorktreeError};

use crate::fault::failed;
use crate::own_worktree::OwnWorktree;
use crate::pack::{KeptPack, PackWriter};
use crate::rescues::Stored;
use crate::scan::content::{self, Content, Until};
use crate::scan::{self, Findings, Place, Subject, walk_failed};
use compose::{Draft, Material};
use keep::{Copier, Kept};

/// How often to start again if another process changed the same rescue.
const ATTEMPTS: usize = 5;

/// Saves what a worktree contains that exists nowhere else. If the content was saved before, nothing changes.
///
/// The caller holds the session's lock.
pub(crate) fn rescue(
    worktree: &OwnWorktree,
    options: &WorktreeOptions,
    now: Time,
) -> Result<Rescued, WorktreeError> {
    if sexton_mutant::is("no_rescue") {
        return Ok(Rescued { saved: None });
    }
    let packs = worktree.common.join("objects/pack");
    KeptPack::release_left_over(&packs, &note_of(worktree))
        .map_err(|error| failed("clearing", &packs, error))?;
    for _ in 0..ATTEMPTS {
        if let Some(rescued) = attempt(worktree, options, now)? {
            return Ok(rescued);
        }
    }
    let why = "another process keeps changing its rescue".to_owned();
    Err(WorktreeError::CannotRescue { path: worktree.location.path.clone(), why })
}

/// Runs one attempt; `None` if the ref changed before it could be set.
fn attempt(
    worktree: &OwnWorktree,
    options: &WorktreeOptions,
    now: Time,
) -> Result<Option<Rescued>, WorktreeError> {
    let subject = Subject::open(worktree)?;
    let earlier = find_earlier(worktree, &subject)?;
    let survey = Survey::take(worktree, &subject, options)?;
    // An existing rescue is compared first, without writing anything.
    if let Some(earlier) = &earlier {
        let mut dry_run = PackWriter::dry_run();
        let draft = survey.draft(worktree, &subject, &mut dry_run)?;
        if draft.is_none_or(|draft| draft.is(earlier) || survey.is_less_than(earlier, &draft)) {
            return Ok(Some(Rescued { saved: Some(earlier.shown()) }));
        }
    }
    let mut pack = PackWriter::new(&worktree.common.join("objects/pack"));
    let Some(draft) = survey.draft(worktree, &subject, &mut pack)? else {
        return Ok(Some(Rescued { saved: None }));
    };
    let unwritable = |error| failed("writing the rescue into", &worktree.common, error);
    let odb = subject.repository.odb().map_err(|error| failed("reading", &worktree.common, error))?;
    let objects = worktree.common.join("objects");
    let mut copier = Copier { repository: &subject.repository, odb: &odb, objects, done: Default::default() };
    copier.copy(&survey.kept, &mut pack).map_err(unwritable)?;
    let commit = draft
        .commit(&worktree.location.session, earlier.as_ref().map(|earlier| earlier.commit), now, &mut pack)
        .map_err(unwritable)?;
    // Keeps `git gc` from deleting the objects before the ref points to them.
    let _kept = pack.finish(&note_of(worktree)).map_err(unwritable)?;

    let lock = publish::lock(&worktree.common)?;
    let current = publish::find(&subject.repository, &worktree.location.session)
        .map_err(|error| failed("reading the rescues of", &worktree.common, error))?;
    if current != earlier.as_ref().map(|earlier| earlier.commit) {
        return Ok(None);
    }
    publish::point(&worktree.common, &worktree.location.session, commit, &lock).map_err(unwritable)?;
    Ok(Some(Rescued { saved: Some(draft.shown(&worktree.location.session, commit)) }))
}

/// Returns the content of the `.keep` file of a rescue's pack.
fn note_of(worktree: &OwnWorktree) -> String {
    format!("sexton rescue {}\n", worktree.location.session)
}

fn find_earlier(worktree: &OwnWorktree, subject: &Subject) -> Result<Option<Stored>, WorktreeError> {
    let unreadable = |why: String| failed("reading the rescues of", &worktree.common, why);
    publish::find(&subject.repository, &worktree.location.session)
        .map_err(|error| unreadable(error.message().to_owned()))?
        .map(|commit| Stored::load(&subject.repository, commit).map_err(unreadable))
        .transpose()
}

/// Everything that was found, before anything is written.
struct Survey {
    findings: Findings,
    state: state::StateFiles,
    kept: Kept,
    /// Whether the worktree's directory is missing.
    directory_gone: bool,
}

impl Survey {
    fn take(
        worktree: &OwnWorktree,
        subject: &Subject,
        options: &WorktreeOptions,
    ) -> Result<Survey, WorktreeError> {
        let findings = match Place::of(worktree) {
            Some(place) => scan_worktree(worktree, &place, subject, options)?,
            None => scan::scan_without_directory(&worktree.admin, subject)?,
        };
        let state =
            state::load(&worktree.admin).map_err(|error| failed("reading", &worktree.admin, error))?;
        let named = state::find_named_objects(&state);
        let kept = Kept::find(subject, findings.staged_objects(), named)
            .map_err(|error| failed("reading the repository", &worktree.common, error))?;
        Ok(Survey { findings, state, kept, directory_gone: worktree.workdir.is_none() })
    }

    /// Reads the file contents that are needed and composes the rescue; `None` if there is nothing to save.
    fn draft(
        &self,
        worktree: &OwnWorktree,
        subject: &Subject,
        pack: &mut PackWriter,
    ) -> Result<Option<Draft>, WorktreeError> {
        let contents = match Place::of(worktree) {
            Some(place) => read(&place, &self.findings, pack)?,
            None => Vec::new(),
        };
        let material = Material {
            subject,
            findings: &self.findings,
            contents: &contents,
            state: &self.state,
            kept: &self.kept,
            directory_gone: self.directory_gone,
            host: worktree.mark.host.as_ref(),
        };
        if !material.has_anything() {
            return Ok(None);
        }
        material
            .draft(&worktree.location.session, pack)
            .map(Some)
            .map_err(|error| failed("writing the rescue into", &worktree.common, error))
    }

    /// Returns whether only the admin directory is left and contains nothing that the earlier rescue lacks. A
    /// rescue of a missing directory must never replace one that was made while the directory existed.
    fn is_less_than(&self, earlier: &Stored, draft: &Draft) -> bool {
        self.directory_gone && !earlier.manifest.directory_gone && draft.has_same_git_state(earlier)
    }
}

fn scan_worktree(
    worktree: &OwnWorktree,
    place: &Place<'_>,
    subject: &Subject,
    options: &WorktreeOptions,
) -> Result<Findings, WorktreeError> {
    let mut findings = scan::scan(place, subject, worktree.complete, options.rescue_ignored)?;
    if !worktree.complete {
        let in_git = |error: git2::Error| failed("reading", &worktree.common, error);
        let odb = subject.repository.odb().map_err(in_git)?;
        findings.drop_partial_writes(place, &odb).map_err(|error| failed("reading", place.workdir, error))?;
    }
    Ok(findings)
}

fn read(
    place: &Place<'_>,
    findings: &Findings,
    pack: &mut PackWriter,
) -> Result<Vec<Option<Content>>, WorktreeError> {
    let shared = Mutex::new(std::mem::replace(pack, PackWriter::dry_run()));
    let contents = content::read_all(place.root, &findings.candidates, &shared, Until::Done);
    *pack = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    contents.map_err(|error| walk_failed(place, error))
}
