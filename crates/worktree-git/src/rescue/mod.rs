//! A rescue: everything in a worktree that exists nowhere else, as one commit under
//! `refs/sexton/rescue/<session>`, shaped like a stash: `git stash apply <ref>` and `git diff HEAD <ref>`
//! work without Sexton.
//!
//! Architecture invariant: a rescue writes objects and one ref, and nothing else: not the worktree, not its
//! index. It runs no program. When it returns, all of it is on disk.

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
use crate::pack::{KeptPack, PackWriter};
use crate::rescues::Stored;
use crate::scan::content::{self, Content, Until};
use crate::scan::{self, Findings, Place, Subject, walk_failed};
use crate::site::Site;
use compose::{Draft, Material};
use keep::{Copier, Kept};

/// How often to begin again where somebody else changed the same rescue meanwhile.
const ATTEMPTS: usize = 5;

/// Saves what a worktree holds that exists nowhere else. The same content again changes nothing.
///
/// The caller holds the session's lock.
pub(crate) fn rescue(site: &Site, options: WorktreeOptions, now: Time) -> Result<Rescued, WorktreeError> {
    if sexton_mutant::is("no_rescue") {
        return Ok(Rescued { saved: None });
    }
    let packs = site.common.join("objects/pack");
    KeptPack::release_left_over(&packs, &note_of(site)).map_err(|error| failed("clearing", &packs, error))?;
    for _ in 0..ATTEMPTS {
        if let Some(rescued) = attempt(site, options, now)? {
            return Ok(rescued);
        }
    }
    let why = "its rescue keeps being changed by somebody else".to_owned();
    Err(WorktreeError::CannotRescue { path: site.plot.path.clone(), why })
}

/// One attempt; `None` where the ref changed before it could be set.
fn attempt(site: &Site, options: WorktreeOptions, now: Time) -> Result<Option<Rescued>, WorktreeError> {
    let subject = Subject::open(site)?;
    let earlier = find_earlier(site, &subject)?;
    let survey = Survey::take(site, &subject, options)?;
    // A rescue that is there already is compared with first, without writing anything.
    if let Some(earlier) = &earlier {
        let mut rehearsal = PackWriter::rehearsal();
        let draft = survey.draft(site, &subject, &mut rehearsal)?;
        if draft.is_none_or(|draft| draft.is(earlier) || survey.is_less_than(earlier, &draft)) {
            return Ok(Some(Rescued { saved: Some(earlier.shown()) }));
        }
    }
    let mut pack = PackWriter::new(&site.common.join("objects/pack"));
    let Some(draft) = survey.draft(site, &subject, &mut pack)? else {
        return Ok(Some(Rescued { saved: None }));
    };
    let unwritable = |error| failed("writing the rescue into", &site.common, error);
    let odb = subject.repository.odb().map_err(|error| failed("reading", &site.common, error))?;
    let objects = site.common.join("objects");
    let mut copier = Copier { repository: &subject.repository, odb: &odb, objects, done: Default::default() };
    copier.copy(&survey.kept, &mut pack).map_err(unwritable)?;
    let commit = draft
        .commit(&site.plot.session, earlier.as_ref().map(|earlier| earlier.commit), now, &mut pack)
        .map_err(unwritable)?;
    // Nothing can be collected between the objects and the ref that holds them.
    let _kept = pack.finish(&note_of(site)).map_err(unwritable)?;

    let lock = publish::lock(&site.common)?;
    let current = publish::find(&subject.repository, &site.plot.session)
        .map_err(|error| failed("reading the rescues of", &site.common, error))?;
    if current != earlier.as_ref().map(|earlier| earlier.commit) {
        return Ok(None);
    }
    publish::point(&site.common, &site.plot.session, commit, &lock).map_err(unwritable)?;
    Ok(Some(Rescued { saved: Some(draft.shown(&site.plot.session, commit)) }))
}

/// What the pack of a session's rescue is kept for.
fn note_of(site: &Site) -> String {
    format!("sexton rescue {}\n", site.plot.session)
}

fn find_earlier(site: &Site, subject: &Subject) -> Result<Option<Stored>, WorktreeError> {
    let unreadable = |why: String| failed("reading the rescues of", &site.common, why);
    publish::find(&subject.repository, &site.plot.session)
        .map_err(|error| unreadable(error.message().to_owned()))?
        .map(|commit| Stored::load(&subject.repository, commit).map_err(unreadable))
        .transpose()
}

/// Everything that was seen, before anything is written.
struct Survey {
    findings: Findings,
    state: state::StateFiles,
    kept: Kept,
    /// Whether the worktree's directory is gone.
    directory_gone: bool,
}

impl Survey {
    fn take(site: &Site, subject: &Subject, options: WorktreeOptions) -> Result<Survey, WorktreeError> {
        let findings = match Place::of(site) {
            Some(place) => scan_worktree(site, &place, subject, options)?,
            None => scan::scan_without_directory(&site.admin, subject)?,
        };
        let state = state::load(&site.admin).map_err(|error| failed("reading", &site.admin, error))?;
        let named = state::find_named_objects(&state);
        let kept = Kept::find(subject, findings.staged_objects(), named)
            .map_err(|error| failed("reading the repository", &site.common, error))?;
        Ok(Survey { findings, state, kept, directory_gone: site.workdir.is_none() })
    }

    /// Reads what has to be read, and puts the rescue together; `None` where there is nothing to save.
    fn draft(
        &self,
        site: &Site,
        subject: &Subject,
        pack: &mut PackWriter,
    ) -> Result<Option<Draft>, WorktreeError> {
        let contents = match Place::of(site) {
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
        };
        if !material.has_anything() {
            return Ok(None);
        }
        material
            .draft(&site.plot.session, pack)
            .map(Some)
            .map_err(|error| failed("writing the rescue into", &site.common, error))
    }

    /// Whether only the admin directory is left and it holds nothing that the earlier rescue has not: what
    /// is gone must never replace what was saved while it was there.
    fn is_less_than(&self, earlier: &Stored, draft: &Draft) -> bool {
        self.directory_gone && !earlier.manifest.directory_gone && draft.has_same_git_state(earlier)
    }
}

fn scan_worktree(
    site: &Site,
    place: &Place<'_>,
    subject: &Subject,
    options: WorktreeOptions,
) -> Result<Findings, WorktreeError> {
    let mut findings = scan::scan(place, subject, site.complete, options.rescue_ignored)?;
    if !site.complete {
        let in_git = |error: git2::Error| failed("reading", &site.common, error);
        let odb = subject.repository.odb().map_err(in_git)?;
        findings.forgive_beginnings(place, &odb).map_err(|error| failed("reading", place.workdir, error))?;
    }
    Ok(findings)
}

fn read(
    place: &Place<'_>,
    findings: &Findings,
    pack: &mut PackWriter,
) -> Result<Vec<Option<Content>>, WorktreeError> {
    let shared = Mutex::new(std::mem::replace(pack, PackWriter::rehearsal()));
    let contents = content::read_all(place.root, &findings.candidates, &shared, Until::Done);
    *pack = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    contents.map_err(|error| walk_failed(place, error))
}
