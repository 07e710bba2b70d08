//! x
#![no_main]
use sexton_core as _; use sexton_store_json as _; use sexton_store_sqlite as _; use sexton_store_tf as _; use sexton_store_omx as _; use sexton_worktree_git as _; use sexton_ralph as _; use sexton_proc_linux as _; use sexton_supervise as _; use toml as _; use tempfile as _;
libfuzzer_sys::fuzz_target!(|data: &[u8]| { let _ = data; });
