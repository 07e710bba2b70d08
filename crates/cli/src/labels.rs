//! The options that label a session.

use clap::Args;
use sexton_service::Labels;

/// The labels of a session.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Labels")]
pub struct LabelArgs {
    /// Session name (unique among running sessions)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Ticket that the session works on
    #[arg(long, value_name = "TICKET")]
    ticket: Option<String>,
    /// Custom tag (repeatable)
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = parse_tag)]
    tags: Vec<(String, String)>,
    /// Kind of agent: claude, codex, pi, …
    #[arg(long, value_name = "KIND")]
    agent: Option<String>,
    /// The agent's conversation id
    #[arg(long, value_name = "ID")]
    agent_session: Option<String>,
    /// The agent's thread id
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Terminal pane that the session is bound to
    #[arg(long, value_name = "PANE")]
    pane: Option<String>,
}

fn parse_tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

impl From<LabelArgs> for Labels {
    fn from(args: LabelArgs) -> Labels {
        let LabelArgs { name, ticket, tags, agent, agent_session, thread, pane } = args;
        Labels { name, ticket, tags, agent, agent_session, thread, pane }
    }
}
