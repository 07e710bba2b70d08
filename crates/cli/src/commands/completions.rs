//! `sexton completions`: prints static completion scripts. Completion of session ids and names is in
//! `completing.rs`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::{Exit, Failure};
use crate::screen::Screen;

/// Print a shell completion script.
///
/// The script completes commands and options. To complete session ids and names as well, add
/// `source <(COMPLETE=bash sexton)` to ~/.bashrc; zsh, fish, elvish and powershell work in the same way.
#[derive(Args)]
#[command(after_help = "\
Examples:
  source <(COMPLETE=bash sexton)   also complete session ids and names
  sexton completions bash > ~/.local/share/bash-completion/completions/sexton
  sexton completions zsh > ~/.zfunc/_sexton
  sexton completions fish > ~/.config/fish/completions/sexton.fish")]
pub struct CompletionsArgs {
    /// Shell to generate the script for
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completions.
pub fn run(args: &CompletionsArgs, screen: &Screen) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "sexton", &mut script);
    screen.raw(&script)?;
    Ok(Exit::DONE)
}
