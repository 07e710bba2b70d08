//! Records as no command would write them: of another boot, another host, another time. They are changed
//! through the store itself, as a recovery on that other machine or day would have found them. Whoever uses
//! this links the stores in.

use sexton_core::plugin::{Registry, StoreOptions};
use sexton_core::store::{Access, Durability, update_session};
use sexton_core::{Batch, Session, SessionId, Store};

use crate::Yard;

/// The yard's store, for changes.
pub fn open(yard: &Yard) -> Box<dyn Store> {
    let registry = Registry::linked().unwrap();
    let (plugin, path) = registry.require_store(&yard.store_url()).unwrap();
    (plugin.open)(&StoreOptions { path, access: Access::Write, durability: Durability::Process }).unwrap()
}

/// Changes the record of a session.
pub fn edit_record(yard: &Yard, id: &str, mut change: impl FnMut(&mut Session) + Send) {
    let store = open(yard);
    let id: SessionId = id.parse().unwrap();
    let edited = update_session(store.as_ref(), &id, |session| {
        change(session);
        true
    });
    assert!(pollster::block_on(edited).unwrap().is_some(), "there is no session {id}");
}

/// Takes the record of a session away, as if the store had lost it.
pub fn remove_record(yard: &Yard, id: &str) {
    let store = open(yard);
    let id: SessionId = id.parse().unwrap();
    let session = pollster::block_on(store.load(&id)).unwrap().unwrap();
    pollster::block_on(store.commit(Batch::new().remove(&session))).unwrap();
}

/// Puts records into the store, in one commit.
pub fn insert_records(yard: &Yard, sessions: Vec<Session>) {
    // What makes the state directory private, so that the binary accepts it.
    yard.ok(&["ps"]);
    std::fs::create_dir_all(yard.state_dir()).unwrap();
    let batch = sessions.into_iter().fold(Batch::new(), Batch::insert);
    pollster::block_on(open(yard).commit(batch)).unwrap();
}
