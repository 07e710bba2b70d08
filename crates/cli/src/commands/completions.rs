//! `sexton completions`: completion scripts for shells, for those who want a file. The ones that know ids and
//! names of sessions are in `completing.rs`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::{Exit, Failure};
use crate::screen::Screen;

/// Print shell completions.
///
/// What is printed knows commands and options. `source <(COMPLETE=bash sexton)` in ~/.bashrc completes ids and
/// names of sessions as well; COMPLETE=zsh, fish, elvish and powershell do the same for those shells.
#[derive(Args)]
#[command(after_help = "\
Examples:
  source <(COMPLETE=bash sexton)   ids and names too
  sexton completions bash > ~/.local/share/bash-completion/completions/sexton
  sexton completions zsh > ~/.zfunc/_sexton
  sexton completions fish > ~/.config/fish/completions/sexton.fish")]
pub struct CompletionsArgs {
    /// For which shell
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
