//! Strict fakes, and the two conformance suites for backends of Sexton. A dev-dependency, never part of the program.
//!
//! **The fakes** ([`FakeStore`], [`FakeProbe`], [`FakeCleaner`], [`FakeStateFiles`]) keep their state in memory and are
//! stricter than any real backend. What a real backend might tolerate, such as a signal to a process that was not
//! proved alive, or the removal of a worktree that changed since its rescue, panics here, so the test fails.
//!
//! **The suites** ([`store_suite`], [`probe_suite`]) check the contracts in the traits' rustdoc with real files and
//! real processes. A backend has one test target without a harness:
//!
//! ```toml
//! [[test]]
//! name = "conformance"
//! harness = false
//! ```
//!
//! ```no_run
//! //! The store suite on the JSON journal.
//! # use std::path::Path;
//! # use sexton_core::{SessionId, Store, StoreError, plugin::StoreOptions, store::Capabilities};
//! # fn open(_: &StoreOptions) -> Result<Box<dyn Store>, StoreError> { unimplemented!() }
//! # fn make_newer(_: &Path) {}
//! # fn damage_one_record(_: &Path, _: &SessionId) {}
//! use sexton_testkit::store_suite::{Subject, run};
//!
//! fn main() -> std::process::ExitCode {
//!     run(&Subject {
//!         name: "json",
//!         open,
//!         file_name: "sessions.jsonl",
//!         make_newer,
//!         damage_one_record,
//!         capabilities: Capabilities::EVERYTHING,
//!         dress: |session| session,
//!         stranger: b"{}",
//!         contended_commits: 500,
//!     })
//! }
//! ```
//!
//! Every case is then a separate test under `cargo test` and nextest. If a case needs another process, the test binary
//! executes itself again, so `main` must call `run` before anything else. If a store declares that it cannot
//! represent something, each case that needs it is replaced by one that asserts a clear refusal. A suite without
//! cases fails. Both suites trace processes with strace, which must be installed.

pub mod fake_probe;
pub mod fake_state_files;
pub mod fake_store;
pub mod fake_worktree;
pub mod probe_suite;
pub mod store_suite;

mod role;
mod strace;
mod trials;

pub use fake_probe::{FakeProbe, FakeProcess};
pub use fake_state_files::FakeStateFiles;
pub use fake_store::FakeStore;
pub use fake_worktree::FakeCleaner;
