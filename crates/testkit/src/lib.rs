//! What every backend of Sexton is measured by: fakes and two suites. A dev-dependency, never
//! part of the program.
//!
//! **The fakes** ([`FakeStore`], [`FakeProbe`], [`FakeCleaner`], [`FakePremises`]) keep their world in memory and forgive
//! nothing. What a real backend might tolerate, such as a signal to a process that was not proved alive,
//! or the removal of a worktree that changed since its rescue, is a panic here: the test that caused it
//! fails. Code that is right with the fakes has no excuse with a real backend.
//!
//! **The suites** ([`store_suite`], [`probe_suite`]) check the contracts that the traits' rustdoc makes,
//! with real files and real processes. A backend has one test target without a harness:
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
//! Every case is then a test of its own, under `cargo test` as under nextest. The test binary executes
//! itself again where a case needs another process, so `main` must call `run` before it does anything
//! else. A store that declares that it cannot represent something is measured by that: each case that needs
//! it is replaced by one that asserts the clear refusal. A suite without a case fails. Both suites look at processes from outside with strace, which must
//! be installed.

pub mod fake_premises;
pub mod fake_probe;
pub mod fake_store;
pub mod fake_worktree;
pub mod probe_suite;
pub mod store_suite;

mod role;
mod strace;
mod trials;

pub use fake_premises::FakePremises;
pub use fake_probe::{FakeProbe, FakeProcess};
pub use fake_store::FakeStore;
pub use fake_worktree::FakeCleaner;
