//! The `sexton` binary. The library crate beside it contains all of the code.

use std::process::ExitCode;

fn main() -> ExitCode {
    sexton_cli::main()
}
