//! What a user can say about a session, as options of a command.

use clap::Args;
use sexton_embed::Labels;

/// The labels of a session.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Labels")]
pub struct LabelArgs {
    /// Call it so; unique among running sessions
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The ticket it works on
    #[arg(long, value_name = "TICKET")]
    ticket: Option<String>,
    /// A key and value of your own (repeatable)
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = parse_tag)]
    tags: Vec<(String, String)>,
    /// Which agent it is: claude, codex, pi …
    #[arg(long, value_name = "KIND")]
    agent: Option<String>,
    /// The agent's own id of its conversation
    #[arg(long, value_name = "ID")]
    agent_session: Option<String>,
    /// The agent's own id of its thread
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// The terminal pane it is bound to
    #[arg(long, value_name = "PANE")]
    pane: Option<String>,
}

fn parse_tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

impl From<LabelArgs> for Labels {
    fn from(args: LabelArgs) -> Labels {
        let LabelArgs { name, ticket, tags, agent, agent_session, thread, pane } = args;
        Labels { name, ticket, tags, agent, agent_session, thread, pane }
    }
}
