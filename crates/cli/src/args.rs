//! The arguments that every command shares, and the list of commands.

use clap::{Args, Parser, Subcommand};

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

/// The same program with one command. A hook runs `sexton resume` at every turn of its agent, and building the
/// parser of every other command would be most of what that costs.
#[derive(Parser)]
#[command(name = "sexton", version, max_term_width = 100, disable_help_subcommand = true)]
struct ResumeAlone {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: OnlyResume,
}

#[derive(Subcommand)]
enum OnlyResume {
    /// Take over the loop of this agent's earlier session
    Resume(commands::resume::ResumeArgs),
}

impl Cli {
    /// Reads the arguments of this process.
    pub fn read() -> Result<Cli, clap::Error> {
        if std::env::args_os().nth(1).is_none_or(|first| first != "resume") {
            return Cli::try_parse();
        }
        let ResumeAlone { global, command: OnlyResume::Resume(args) } = ResumeAlone::try_parse()?;
        Ok(Cli { global, command: Command::Resume(args) })
    }
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
