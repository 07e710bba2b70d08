//! The arguments that every command shares, and the list of commands.

use std::ffi::OsString;

use clap::{Args, FromArgMatches, Parser, Subcommand};

use crate::commands;

/// Looks after coding-agent sessions: knows which processes are theirs, keeps their records, and puts
/// everything in order after a crash.
#[derive(Parser)]
#[command(name = "sexton", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "\
Examples:
  sexton demo                                       the whole story on a throw-away repository
  sexton run -d -w --name fix -- claude -p 'fix it' in the background, in a git worktree of its own
  sexton top                                        what runs, live
  sexton recover                                    after a crash: everything in order")]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Reads the arguments of this process.
    ///
    /// A loop and its hooks call a few commands at every turn, and building the parser of every other command
    /// would be much of what such a call costs. Only what is understood at once is read that way: help, and what
    /// is wrong with a line, is the whole parser's to say.
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

/// Reads `words` with a parser that knows one command; nothing where it does not understand them.
fn read_alone<A: Args>(name: &'static str, words: &[OsString], command: fn(A) -> Command) -> Option<Cli> {
    let alone = A::augment_args(clap::Command::new(name));
    let program = GlobalArgs::augment_args(clap::Command::new("sexton")).subcommand(alone);
    let matches = program.try_get_matches_from(words).ok()?;
    let args = A::from_arg_matches(matches.subcommand_matches(name)?).ok()?;
    Some(Cli { global: GlobalArgs::from_arg_matches(&matches).ok()?, command: command(args) })
}

/// What every command takes.
#[derive(Args, Clone, Default)]
pub struct GlobalArgs {
    /// Keep records, logs and backups here [env: SEXTON_STATE_DIR]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub state_dir: Option<String>,
    /// Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]
    #[arg(long, global = true, value_name = "URL", help_heading = "Global options")]
    pub store: Option<String>,
    /// See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub probe: Option<String>,
    /// Print one JSON document on stdout
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
    /// Watch sessions live
    Top(commands::top::TopArgs),
    /// Show one record, whole
    Show(commands::show::ShowArgs),
    /// Print a session's output
    Logs(commands::logs::LogsArgs),
    /// Block until sessions end
    Wait(commands::wait::WaitArgs),
    /// End sessions, with every process of theirs
    Stop(commands::stop::StopArgs),
    /// Track a process that something else started
    Register(commands::register::RegisterArgs),
    /// Record the end of a registered session
    Finish(commands::finish::FinishArgs),
    /// Put everything in order after a crash
    Recover(commands::recover::RecoverArgs),
    /// Take over the loop of this agent's earlier session
    Resume(commands::resume::ResumeArgs),
    /// See and set the loop state that a session carries
    Loop(commands::loops::LoopArgs),
    /// Let old finished records go
    Prune(commands::prune::PruneArgs),
    /// Settle sessions that nobody can judge, on your word
    Forget(commands::forget::ForgetArgs),
    /// Find and bring back saved work
    Rescue(commands::rescue::RescueArgs),
    /// See and remove the worktrees that Sexton made
    Worktree(commands::worktree::WorktreeArgs),
    /// Let agents work on tickets, one after the other or several at once
    Ralph(commands::ralph::RalphArgs),
    /// Back the store up
    Backup(commands::backup::BackupArgs),
    /// Bring the records of a backup back
    Restore(commands::restore::RestoreArgs),
    /// Copy every record from one store to another
    Migrate(commands::migrate::MigrateArgs),
    /// Check the store and its surroundings
    Doctor(commands::doctor::DoctorArgs),
    /// Serve agents over the Model Context Protocol
    Mcp(commands::mcp::McpArgs),
    /// Print numbers for Prometheus
    Metrics(commands::metrics::MetricsArgs),
    /// Show which backends are linked in
    Backends(commands::backends::BackendsArgs),
    /// Show every setting and where it came from
    Config(commands::config::ConfigArgs),
    /// Allow this repository's .sexton.toml to set everything
    Trust(commands::trust::TrustArgs),
    /// Print the JSON Schema of a record
    Schema(commands::schema::SchemaArgs),
    /// Print shell completions
    Completions(commands::completions::CompletionsArgs),
    /// See the whole story on a throw-away state directory
    Demo(commands::demo::DemoArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<Cli> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Cli::read_quickly(&words)
    }

    #[test]
    fn a_line_that_is_read_quickly_says_the_same_as_read_whole() {
        let cli = read("sexton run -d --name x --state-dir /s -- sh -c true --json").unwrap();
        assert_eq!((cli.global.state_dir.as_deref(), cli.global.json), (Some("/s"), false));
        assert!(matches!(cli.command, Command::Run(_)));
        let cli = read("sexton stop one two --store json:/x --json").unwrap();
        assert_eq!((cli.global.store.as_deref(), cli.global.json), (Some("json:/x"), true));
        assert!(matches!(cli.command, Command::Stop(_)));
    }

    #[test]
    fn what_is_wrong_or_asks_for_help_is_left_to_the_whole_parser() {
        for line in
            ["sexton run", "sexton ps --no-such", "sexton run --help", "sexton stop -h", "sexton --json ps"]
        {
            assert!(read(line).is_none(), "{line}");
        }
    }

    #[test]
    fn every_command_that_is_read_alone_is_one() {
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
