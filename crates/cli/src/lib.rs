//! The command line of Sexton: one file per command, and the only crate that prints.
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
mod screen;
#[cfg(feature = "mcp")]
mod serving;
mod signal;
mod top;
mod trust;
mod usage;
mod yard_findings;

use std::process::ExitCode;

use clap::CommandFactory;

use args::Cli;
use completing::answer_shell;
use screen::Screen;
use sexton_supervise::{is_shim, shim_main};
use usage::parse_arguments;

/// musl's own allocator asks the kernel for memory, and gives it back, at nearly every turn; starting this
/// program would be mostly that.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// The whole program: parses the arguments, runs the command, says what went wrong.
pub fn main() -> ExitCode {
    // The shim is this same program; it parses no argument and has no runtime.
    if is_shim() {
        return shim_main();
    }
    if is_asked_for_version() {
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

/// Whether nothing is asked but the version. Scripts ask that at every step of theirs, so it is answered
/// without building the parser of every command.
fn is_asked_for_version() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().is_some_and(|first| first == "--version" || first == "-V") && arguments.next().is_none()
}

fn print_version() -> ExitCode {
    let printed = Screen::for_terminal(false).line(concat!("sexton ", env!("CARGO_PKG_VERSION")));
    ExitCode::from(u8::from(printed.is_err()))
}

/// The commands, options and help, for man pages and completions.
pub fn command() -> clap::Command {
    Cli::command()
}

/// The JSON Schema of a session's record.
pub fn record_schema() -> serde_json::Value {
    commands::schema::record_schema()
}
