//! Support for the tests of the whole program, with the program's backends linked in.

#![allow(dead_code, unused_imports, reason = "each test target uses a different part")]

use sexton_cli as _;
pub use sexton_test_harness::*;

pub mod mcp;
pub mod tickets;
