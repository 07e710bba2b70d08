//! The command line of Sexton: one file per command. This is the only crate that prints.
//!
//! A command is `XArgs` and `run(args, context)` beside each other in `commands/x.rs`. It reads through
//! the `Context`, prints through its `Screen`, and returns an `Exit` or a `Failure`; `main` turns those
//! into an exit code.

#![cfg_attr(not(test), deny(unused_crate_dependencies))]

mod args;
mod backends;
mod backups;
mod commands;
mod completing;
mod containment_findings;
mod context;
mod ending;
mod failure;
mod findings;
mod hook;
mod labels;
mod layers;
mod outputs;
mod owner;
mod probing;
mod problems;
mod screen;
#[cfg(feature = "mcp")]
mod serving;
mod signal;
mod state_findings;
mod top;
mod usage;

use std::process::ExitCode;

use clap::CommandFactory;

use args::Cli;
use completing::answer_shell;
use screen::Screen;
use sexton_supervise::{divide_if_init, expect_children, is_shim, shim_main, survive_file_size_limit};
use usage::parse_arguments;

/// musl's own allocator makes a system call for nearly every allocation and release, which would dominate the
/// start of this program.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Runs the program: parses the arguments, runs the command, prints errors.
pub fn main() -> ExitCode {
    expect_children();
    // The supervisor is this same program; it parses no arguments and has no runtime.
    if is_shim() {
        return shim_main();
    }
    if let Some(exit) = divide_if_init() {
        return exit;
    }
    // A write beyond the file size limit must fail with an error instead of killing this process.
    survive_file_size_limit();
    if is_version_request() {
        return print_version();
    }
    if answer_shell() {
        return ExitCode::SUCCESS;
    }
    let cli = match parse_arguments() {
        Ok(cli) => cli,
        Err(exit) => return ExitCode::from(exit.0),
    };
    let mut screen = Screen::for_terminal(cli.global.json);
    let outcome = pollster::block_on(commands::run(cli, &mut screen));
    let exit = match outcome {
        Ok(exit) => exit,
        Err(failure) => screen.fail(&failure),
    };
    ExitCode::from(exit.max(screen.exit_of_damage()).0)
}

/// Returns whether the only argument is the version flag. Scripts call it often, so it is handled without
/// building the parsers of all commands.
fn is_version_request() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().is_some_and(|first| first == "--version" || first == "-V") && arguments.next().is_none()
}

fn print_version() -> ExitCode {
    let printed = Screen::for_terminal(false).line(concat!("sexton ", env!("CARGO_PKG_VERSION")));
    ExitCode::from(u8::from(printed.is_err()))
}

/// Returns the commands, options and help texts, for man pages and completions.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Returns the JSON Schema of a session's record.
pub fn record_schema() -> serde_json::Value {
    commands::schema::record_schema()
}
