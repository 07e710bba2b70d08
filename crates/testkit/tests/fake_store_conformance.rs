//! Runs the store suite on the fake store itself, without the cases that need other processes.

use sexton_core::store::{Access, Capabilities};
use sexton_testkit::FakeStore;
use sexton_testkit::store_suite::{Subject, run_within_one_process};

fn main() -> std::process::ExitCode {
    run_within_one_process(&Subject {
        name: "fake",
        open: sexton_testkit::fake_store::open,
        file_name: "fake",
        make_newer: |path| FakeStore::at(path, Access::Write).make_newer(),
        damage_one_record: |path, id| FakeStore::at(path, Access::Write).damage_record(id),
        capabilities: Capabilities::EVERYTHING,
        dress: |session| session,
        stranger: b"{\"sessions\": [], \"version\": 1}\n",
        contended_commits: 500,
    })
}
