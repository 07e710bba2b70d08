//! The `sexton` program. Everything it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    sexton_cli::main()
}
