//! Files that survive: what every backend on a file system needs, written once.
//!
//! [`replace_file`] changes a file all at once or not at all, [`FileLock`] is a lock that the kernel drops
//! when its holder dies, and [`Mark`] remembers how far acknowledged writes had come, so that a store
//! which lost its end is noticed.
//!
//! Architecture invariant: nothing here knows what a session is, and nothing is ever judged by a file's
//! age.

mod find;
mod link;
mod lock;
mod mark;
mod replace;
mod sync;
mod uuid;

pub use find::find;
pub use link::follow_link;
pub use lock::FileLock;
pub use mark::{FileStamp, Mark, MarkFile};
pub use replace::{
    create_private_dir, keep_aside, remove_leftovers, replace_file, replace_file_unsynced, set_aside,
    sync_parent,
};
pub use sync::{sync_all, sync_data, sync_file_system};
pub use uuid::random_uuid;
