//! Records that no command writes: of another boot, another host, another time. They are changed through the store
//! itself. A test that uses this module must link the stores.

use sexton_core::plugin::{Registry, StoreOptions};
use sexton_core::store::{Access, Durability, update_session};
use sexton_core::{Batch, Session, SessionId, Store};

use crate::TestEnv;

/// Opens the test environment's store for writing.
pub fn open(test_env: &TestEnv) -> Box<dyn Store> {
    let registry = Registry::linked().unwrap();
    let (plugin, path) = registry.require_store(&test_env.store_url()).unwrap();
    (plugin.open)(&StoreOptions::new(path, Access::Write, Durability::Process)).unwrap()
}

/// Changes the record of a session.
pub fn edit_record(test_env: &TestEnv, id: &str, mut change: impl FnMut(&mut Session) + Send) {
    let store = open(test_env);
    let id: SessionId = id.parse().unwrap();
    let edited = update_session(store.as_ref(), &id, |session| {
        change(session);
        true
    });
    assert!(pollster::block_on(edited).unwrap().is_some(), "there is no session {id}");
}

/// Deletes the record of a session, as if the store had lost it.
pub fn remove_record(test_env: &TestEnv, id: &str) {
    let store = open(test_env);
    let id: SessionId = id.parse().unwrap();
    let session = pollster::block_on(store.load(&id)).unwrap().unwrap();
    pollster::block_on(store.commit(Batch::new().remove(&session))).unwrap();
}

/// Inserts records into the store, in one commit.
pub fn insert_records(test_env: &TestEnv, sessions: Vec<Session>) {
    // `ps` creates a private state directory, which the binary accepts.
    test_env.ok(&["ps"]);
    std::fs::create_dir_all(test_env.state_dir()).unwrap();
    let batch = sessions.into_iter().fold(Batch::new(), Batch::insert);
    pollster::block_on(open(test_env).commit(batch)).unwrap();
}

/// Changes a record to one of another machine: another hostname and another boot.
pub fn move_elsewhere(session: &mut Session) {
    session.host.hostname = "another-host".to_owned();
    let identities = [&mut session.process, &mut session.supervisor, &mut session.owner];
    for identity in identities.into_iter().flatten() {
        identity.boot_id = Some("00000000-0000-4000-8000-000000000000".to_owned());
    }
}
