//! Composes the objects of a rescue: the tree, the state commit with its manifest, and the commit that has
//! both.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;

use git2::{ObjectType, Oid};
use sexton_core::worktree::Rescue;
use sexton_core::{Host, OsText, SessionId, Time};

use super::keep::Kept;
use super::manifest::{FORMAT, LeftOutPath, Manifest, PathBits};
use super::publish::reference_of;
use super::state::StateFiles;
use super::tree::{self, Change};
use crate::pack::PackWriter;
use crate::rescues::{MADE_AT, Stored};
use crate::scan::content::Content;
use crate::scan::{Findings, Subject};
use crate::tree::{FILE, Item};

/// A rescue's author is always Sexton, whatever git's configuration is.
const AUTHOR: &str = "Sexton <sexton@localhost>";
/// The time of placeholder commits: it makes them the same in every rescue.
const NO_TIME: i64 = 0;

/// The input of a rescue.
pub(super) struct Material<'a> {
    pub(super) subject: &'a Subject,
    pub(super) findings: &'a Findings,
    /// For each candidate of the findings, its content.
    pub(super) contents: &'a [Option<Content>],
    pub(super) state: &'a StateFiles,
    pub(super) kept: &'a Kept,
    pub(super) directory_gone: bool,
    /// The host that the worktree belongs to.
    pub(super) host: Option<&'a Host>,
}

impl Material<'_> {
    /// Returns whether there is anything that exists nowhere else.
    pub(super) fn has_anything(&self) -> bool {
        self.findings.is_changed()
            || !self.kept.own.is_empty()
            || !self.changes().is_empty()
            || self.findings.has_set_modes(self.contents)
    }

    /// Returns every path that differs from HEAD.
    fn changes(&self) -> Vec<Change> {
        let read = self.findings.candidates.iter().zip(self.contents).filter_map(|(candidate, content)| {
            let item = content.map(|content| content.item);
            (item != candidate.head).then(|| (candidate.path.clone(), item))
        });
        self.findings.known.iter().cloned().chain(read).collect()
    }

    /// Writes everything except the commits.
    pub(super) fn draft(&self, session: &SessionId, pack: &mut PackWriter) -> io::Result<Draft> {
        let odb = self.subject.repository.odb().map_err(io::Error::other)?;
        let head = &self.subject.head;
        let changes = self.changes();
        let tree = tree::write(&odb, head.tree(), &changes, pack)?;

        let mut state: Vec<Change> = Vec::new();
        let mut add = |path: Vec<u8>, bytes: &[u8], pack: &mut PackWriter| -> io::Result<Oid> {
            let oid = pack.add(ObjectType::Blob, bytes)?;
            state.push((path, Some(Item { mode: FILE, oid })));
            Ok(oid)
        };
        let index = match &self.findings.index.raw {
            Some(_) if sexton_mutant::is("no_index") => None,
            Some(raw) => Some(add(b"index".to_vec(), raw, pack)?),
            None => None,
        };
        for (path, bytes) in self.state {
            add([b"state/", &path[..]].concat(), bytes, pack)?;
        }
        let manifest = self.manifest(session, changes.len());
        add(b"manifest.json".to_vec(), &manifest.encode(), pack)?;
        for tag in &self.kept.tags {
            let object = odb.read(*tag).map_err(io::Error::other)?;
            add(format!("tags/{tag}").into_bytes(), object.data(), pack)?;
        }
        for item in &self.kept.items {
            state.push((format!("kept/{}", item.oid).into_bytes(), Some(*item)));
        }
        Ok(Draft {
            tree,
            state_tree: tree::write(&odb, None, &state, pack)?,
            head: head.commit.map(|(commit, _)| commit),
            state_parents: head
                .commit
                .map(|(commit, _)| commit)
                .into_iter()
                .chain(self.kept.tips.clone())
                .collect(),
            index,
            files: changes.len(),
        })
    }

    fn manifest(&self, session: &SessionId, changed: usize) -> Manifest {
        let head = &self.subject.head;
        let read = self.findings.candidates.iter().zip(self.contents);
        let raw = read.filter_map(|(candidate, content)| {
            let mode = (*content)?.permissions;
            Some(PathBits { path: text(&candidate.path), mode })
        });
        let modes = self.findings.file_modes.iter().chain(&self.findings.directory_modes);
        let left_out = self.findings.left_out.iter().map(|(path, why)| (text(path), why.clone()));
        let missing = self
            .kept
            .missing
            .iter()
            .map(|oid| (text(b"index"), format!("it names {oid}, which the repository does not have")));
        let gone = self.directory_gone.then(|| {
            (text(b"."), "the directory was gone: only what git had staged or committed is here".to_owned())
        });
        Manifest {
            format: FORMAT,
            session: session.clone(),
            head: head.commit.map(|(commit, _)| commit.to_string()),
            branch: head.branch.as_deref().map(text),
            directory_gone: self.directory_gone,
            changed,
            raw: raw.collect(),
            modes: modes.map(|(path, mode)| PathBits { path: text(path), mode: Some(*mode) }).collect(),
            empty_directories: self.findings.empty.iter().map(|path| text(path)).collect(),
            left_out: left_out
                .chain(missing)
                .chain(gone)
                .map(|(path, why)| LeftOutPath { path, why })
                .collect(),
            host: self.host.cloned(),
        }
    }
}

fn text(path: &[u8]) -> OsText {
    OsString::from_vec(path.to_vec()).into()
}

/// A rescue without its commits: everything that depends on the content and nothing that depends on the time.
pub(super) struct Draft {
    tree: Oid,
    state_tree: Oid,
    head: Option<Oid>,
    state_parents: Vec<Oid>,
    index: Option<Oid>,
    files: usize,
}

impl Draft {
    /// Returns whether an earlier rescue has the same content.
    pub(super) fn is(&self, earlier: &Stored) -> bool {
        self.tree == earlier.tree
            && self.state_tree == earlier.state_tree
            && self.state_parents == earlier.state_parents
    }

    /// Returns whether an earlier rescue has the same HEAD and the same index.
    pub(super) fn has_same_git_state(&self, earlier: &Stored) -> bool {
        self.head.map(|head| head.to_string()) == earlier.manifest.head && self.index == earlier.index
    }

    /// Writes the commits and returns the rescue's commit.
    pub(super) fn commit(
        &self,
        session: &SessionId,
        earlier: Option<Oid>,
        now: Time,
        pack: &mut PackWriter,
    ) -> io::Result<Oid> {
        let seconds = now.timestamp().as_second();
        let base = match self.head {
            Some(head) => head,
            None => placeholder("The branch had no commit yet", pack)?,
        };
        let message = format!("State of session {session}: index, unfinished work of git, manifest\n");
        let state = write_commit(self.state_tree, &self.state_parents, seconds, &message, pack)?;
        let mut parents = vec![base, state];
        if let Some(earlier) = earlier {
            // git reads the third parent of a stash as its untracked files; a rescue has them in its tree.
            parents.push(placeholder("No untracked files apart", pack)?);
            parents.push(earlier);
        }
        let files = if self.files == 1 {
            "1 file differs".to_owned()
        } else {
            format!("{} files differ", self.files)
        };
        let message = format!(
            "Rescue of session {session}: {files} from HEAD\n\n\
             Restore it with: sexton rescue restore {session}\n\n{MADE_AT}{now}\n"
        );
        write_commit(self.tree, &parents, seconds, &message, pack)
    }

    /// Returns the rescue in the form of the trait.
    pub(super) fn shown(&self, session: &SessionId, commit: Oid) -> Rescue {
        Rescue { reference: reference_of(session), commit: commit.to_string(), files: self.files }
    }
}

/// Writes an empty commit for a parent that is required.
fn placeholder(message: &str, pack: &mut PackWriter) -> io::Result<Oid> {
    let nothing = pack.add(ObjectType::Tree, b"")?;
    write_commit(nothing, &[], NO_TIME, &format!("{message}\n"), pack)
}

fn write_commit(
    tree: Oid,
    parents: &[Oid],
    seconds: i64,
    message: &str,
    pack: &mut PackWriter,
) -> io::Result<Oid> {
    let parents: String = parents.iter().map(|parent| format!("parent {parent}\n")).collect();
    let who = format!("{AUTHOR} {seconds} +0000");
    let text = format!("tree {tree}\n{parents}author {who}\ncommitter {who}\n\n{message}");
    pack.add(ObjectType::Commit, text.as_bytes())
}
