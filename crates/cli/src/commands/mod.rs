//! One file per command, with its arguments and its implementation.

pub mod backends;
pub mod backup;
pub mod completions;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod finish;
pub mod forget;
pub mod help;
pub mod logs;
pub mod loops;
pub mod mcp;
pub mod metrics;
pub mod migrate;
pub mod prune;
pub mod ps;
pub mod ralph;
pub mod recover;
pub mod register;
pub mod rescue;
pub mod restore;
pub mod resume;
pub mod run;
pub mod schema;
pub mod show;
pub mod stop;
pub mod top;
pub mod trust;
pub mod wait;
pub mod worktree;

use crate::args::{Cli, Command};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::screen::Screen;

/// Runs the command. Commands that need no configuration run even if it is invalid.
pub async fn run(cli: Cli, screen: &mut Screen) -> Result<Exit, Failure> {
    let global = cli.global;
    match cli.command {
        Command::Backends(_) => backends::run(screen),
        Command::Help(args) => help::run(&args, screen),
        Command::Schema(_) => schema::run(screen),
        Command::Completions(args) => completions::run(&args, screen),
        Command::Demo(_) => demo::run(&global, screen).await,
        Command::Run(args) => {
            run::run(args, &mut Context::load(&global, screen)?).await.map_err(Failure::of_own)
        }
        Command::Logs(args) => logs::run(&args, &mut Context::load(&global, screen)?).await,
        Command::Wait(args) => {
            wait::run(&args, &mut Context::load(&global, screen)?).await.map_err(Failure::of_own)
        }
        Command::Stop(args) => stop::run(&args, &mut Context::load(&global, screen)?).await,
        Command::Ps(args) => ps::run(&args, &mut Context::load(&global, screen)?).await,
        Command::Top(args) => top::run(args, &mut Context::load(&global, screen)?).await,
        Command::Show(args) => show::run(&args, &mut Context::load(&global, screen)?).await,
        Command::Register(args) => register::run(args, &mut Context::load(&global, screen)?).await,
        Command::Finish(args) => finish::run(&args, &mut Context::load(&global, screen)?).await,
        Command::Recover(args) => recover::run(&args, &mut Context::load(&global, screen)?).await,
        Command::Resume(args) => resume::run(args, &global, screen).await,
        Command::Loop(args) => loops::run(&args, &mut Context::load(&global, screen)?).await,
        Command::Prune(args) => prune::run(&args, &mut Context::load(&global, screen)?).await,
        Command::Forget(args) => forget::run(&args, &mut Context::load(&global, screen)?).await,
        Command::Rescue(args) => rescue::run(&args, &mut Context::load(&global, screen)?).await,
        Command::Worktree(args) => worktree::run(&args, &mut Context::load(&global, screen)?).await,
        Command::Mcp(args) => mcp::run(&args, Context::load(&global, screen)?),
        Command::Ralph(args) => {
            let flags = args.flags();
            ralph::run(args, &mut Context::load_with(&global, flags, screen)?)
        }
        Command::Metrics(_) => metrics::run(&mut Context::load(&global, screen)?).await,
        Command::Backup(args) => backup::run(&args, &mut Context::load(&global, screen)?).await,
        Command::Restore(args) => restore::run(&args, &mut Context::load(&global, screen)?).await,
        Command::Migrate(args) => migrate::run(&args, &mut Context::load(&global, screen)?).await,
        Command::Doctor(args) => doctor::run(&args, &mut Context::load(&global, screen)?).await,
        Command::Config(_) => config::run(&Context::load(&global, screen)?),
        Command::Trust(_) => trust::run(&Context::load(&global, screen)?),
    }
}
