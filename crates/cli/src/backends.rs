//! The only place that names the backends. A crate that is not named is silently not linked, so each backend has
//! a line here behind its cargo feature, and a snapshot test of `sexton backends` covers them.

#[cfg(feature = "mutants")]
use sexton_mutant as _;
#[cfg(feature = "proc-linux")]
use sexton_proc_linux as _;
#[cfg(feature = "proc-portable")]
use sexton_proc_portable as _;
#[cfg(feature = "store-json")]
use sexton_store_json as _;
#[cfg(feature = "store-omx")]
use sexton_store_omx as _;
#[cfg(feature = "store-sqlite")]
use sexton_store_sqlite as _;
#[cfg(feature = "store-tf")]
use sexton_store_tf as _;
#[cfg(feature = "worktree-git")]
use sexton_worktree_git as _;

/// The default store: its scheme, and its file in the state directory.
pub const DEFAULT_STORE: (&str, &str) =
    if cfg!(feature = "store-sqlite") { ("sqlite", "sessions.db") } else { ("json", "sessions.jsonl") };
