//! What the tests of the whole program stand on, with the backends of the program linked in.

#![allow(dead_code, unused_imports, reason = "each test target uses its own part")]

use sexton_cli as _;
pub use sexton_field::*;

pub mod mcp;
pub mod tickets;
