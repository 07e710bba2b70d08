//! Durable files: what every backend on a file system needs.
//!
//! [`replace_file`] replaces a file atomically, [`FileLock`] is a lock that the kernel releases when its
//! holder exits, [`read_regular`] reads files that others may have created, [`is_trusted`] returns whether
//! the user trusts a file of a repository, and [`Mark`] records the last acknowledged write, so that a
//! truncated store is detected.
//!
//! Architecture invariant: nothing here knows what a session is, and nothing is ever decided by a file's age.

mod find;
mod link;
mod lock;
mod mark;
mod read;
mod regular;
mod replace;
mod sync;
mod trust;
mod uuid;

pub use find::find;
pub use link::follow_link;
pub use lock::FileLock;
pub use mark::{FileStamp, Mark, MarkFile};
pub use read::find_regular;
pub use regular::{
    LARGE_FILE, SMALL_FILE, find_other_owner, is_other_user, open_regular, read_regular, read_settings,
    read_within, require_regular_if_any,
};
pub use replace::{
    create_file, create_private_dir, keep_aside, remove_leftovers, replace_file, replace_file_unsynced,
    set_aside, sync_parent,
};
pub use sync::{sync_all, sync_data, sync_file_system};
pub use trust::{is_trusted, remember_trust};
pub use uuid::random_uuid;
