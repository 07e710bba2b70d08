//! The arguments that every command shares, and the list of commands.

use std::ffi::OsString;

use clap::{Args, FromArgMatches, Parser, Subcommand};

use crate::commands;

/// Supervises coding-agent sessions: tracks their processes, keeps their records, and after a crash
/// stops orphans, saves their work and removes their worktrees.
#[derive(Parser)]
#[command(name = "sexton", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "\
Examples:
  sexton demo                                       run a demonstration in a temporary repository
  sexton run -d -w --name fix -- claude -p 'fix it' run in the background, in a new git worktree
  sexton top                                        show running sessions live
  sexton recover                                    clean up after a crash")]
pub struct Cli {
    /// The global options.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Parses the arguments of this process.
    ///
    /// A loop and its hooks call a few commands at every turn, and building the parsers of all other commands
    /// would be a large part of the cost of such a call. The fast path only accepts valid command lines; the
    /// full parser prints help and reports errors.
    pub fn read() -> Result<Cli, clap::Error> {
        let words: Vec<OsString> = std::env::args_os().collect();
        Cli::read_quickly(&words).map_or_else(|| Cli::try_parse_from(&words), Ok)
    }

    fn read_quickly(words: &[OsString]) -> Option<Cli> {
        match words.get(1)?.to_str()? {
            "run" => read_alone("run", words, Command::Run),
            "ps" => read_alone("ps", words, Command::Ps),
            "show" => read_alone("show", words, Command::Show),
            "logs" => read_alone("logs", words, Command::Logs),
            "wait" => read_alone("wait", words, Command::Wait),
            "stop" => read_alone("stop", words, Command::Stop),
            "register" => read_alone("register", words, Command::Register),
            "finish" => read_alone("finish", words, Command::Finish),
            "resume" => read_alone("resume", words, Command::Resume),
            _ => None,
        }
    }
}

/// Parses `words` with a parser for one command. Returns `None` if that fails.
fn read_alone<A: Args>(name: &'static str, words: &[OsString], command: fn(A) -> Command) -> Option<Cli> {
    let alone = A::augment_args(clap::Command::new(name));
    let program = GlobalArgs::augment_args(clap::Command::new("sexton")).subcommand(alone);
    let matches = program.try_get_matches_from(words).ok()?;
    let args = A::from_arg_matches(matches.subcommand_matches(name)?).ok()?;
    Some(Cli { global: GlobalArgs::from_arg_matches(&matches).ok()?, command: command(args) })
}

/// The options that every command accepts.
#[derive(Args, Clone, Default)]
pub struct GlobalArgs {
    /// Directory for records, logs and backups [env: SEXTON_STATE_DIR]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub state_dir: Option<String>,
    /// Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]
    #[arg(long, global = true, value_name = "URL", help_heading = "Global options")]
    pub store: Option<String>,
    /// Process probe to use: auto, linux, portable [env: SEXTON_PROBE]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub probe: Option<String>,
    /// Print the result as JSON on stdout
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Start a session
    Run(commands::run::RunArgs),
    /// List sessions
    Ps(commands::ps::PsArgs),
    /// Show sessions live
    Top(commands::top::TopArgs),
    /// Show one session's record
    Show(commands::show::ShowArgs),
    /// Print a session's output
    Logs(commands::logs::LogsArgs),
    /// Block until sessions end
    Wait(commands::wait::WaitArgs),
    /// Stop sessions and all of their processes
    Stop(commands::stop::StopArgs),
    /// Track a process that another program started
    Register(commands::register::RegisterArgs),
    /// Record the exit of a registered session
    Finish(commands::finish::FinishArgs),
    /// Stop orphans, save their work and remove their worktrees
    Recover(commands::recover::RecoverArgs),
    /// Continue the loop of this agent's earlier session
    Resume(commands::resume::ResumeArgs),
    /// Show or set a session's loop state
    Loop(commands::loops::LoopArgs),
    /// Delete old finished records
    Prune(commands::prune::PruneArgs),
    /// Mark unreachable sessions as gone
    Forget(commands::forget::ForgetArgs),
    /// List, show and restore saved work
    Rescue(commands::rescue::RescueArgs),
    /// List and remove the worktrees that Sexton created
    Worktree(commands::worktree::WorktreeArgs),
    /// Run agents on tickets, one at a time or in parallel
    Ralph(commands::ralph::RalphArgs),
    /// Back up the store
    Backup(commands::backup::BackupArgs),
    /// Restore the records from a backup
    Restore(commands::restore::RestoreArgs),
    /// Copy all records from one store to another
    Migrate(commands::migrate::MigrateArgs),
    /// Check the store and its environment
    Doctor(commands::doctor::DoctorArgs),
    /// Run a Model Context Protocol server for agents
    Mcp(commands::mcp::McpArgs),
    /// Print metrics for Prometheus
    Metrics(commands::metrics::MetricsArgs),
    /// List the available backends
    Backends(commands::backends::BackendsArgs),
    /// Show every setting and its source
    Config(commands::config::ConfigArgs),
    /// Trust this repository's configuration files
    Trust(commands::trust::TrustArgs),
    /// Print the JSON Schema of a record
    Schema(commands::schema::SchemaArgs),
    /// Print a shell completion script
    Completions(commands::completions::CompletionsArgs),
    /// Run a demonstration in a temporary directory
    Demo(commands::demo::DemoArgs),
    /// Show the help of a command, or the exit codes
    Help(commands::help::HelpArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<Cli> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Cli::read_quickly(&words)
    }

    #[test]
    fn fast_path_parses_arguments_and_global_options() {
        let cli = read("sexton run -d --name x --state-dir /s -- sh -c true --json").unwrap();
        assert_eq!((cli.global.state_dir.as_deref(), cli.global.json), (Some("/s"), false));
        assert!(matches!(cli.command, Command::Run(_)));
        let cli = read("sexton stop one two --store json:/x --json").unwrap();
        assert_eq!((cli.global.store.as_deref(), cli.global.json), (Some("json:/x"), true));
        assert!(matches!(cli.command, Command::Stop(_)));
    }

    #[test]
    fn fast_path_rejects_help_and_invalid_arguments() {
        for line in
            ["sexton run", "sexton ps --no-such", "sexton run --help", "sexton stop -h", "sexton --json ps"]
        {
            assert!(read(line).is_none(), "{line}");
        }
    }

    #[test]
    fn fast_path_and_full_parser_agree_on_the_command() {
        for line in [
            "run -- x",
            "ps",
            "show x",
            "logs x",
            "wait x",
            "stop x",
            "finish x --code 0",
            "register --pid 1",
            "resume",
        ] {
            let whole = Cli::try_parse_from(format!("sexton {line}").split(' ')).unwrap();
            let quick = read(&format!("sexton {line}")).unwrap();
            assert_eq!(
                std::mem::discriminant(&quick.command),
                std::mem::discriminant(&whole.command),
                "{line}"
            );
        }
    }
}
