//! `sexton mcp`: serve agents over the Model Context Protocol.

use std::net::{SocketAddr, ToSocketAddrs};

use clap::Args;

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Serve agents over the Model Context Protocol, on standard input and output or on HTTP.
///
/// Without flags a server only reads. Sessions that it starts end with it: when its client goes away or it is
/// told to end they are stopped, and when it is killed their supervisors end them.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton mcp                                 an agent may look at sessions and read their output
  sexton mcp --allow-run --allow-stop        it may also run commands and stop sessions
  claude mcp add sexton -- sexton mcp --allow-run --allow-stop
  sexton mcp --http 127.0.0.1:8721           for several clients; with `mcp.token` also from elsewhere

Which commands may be run is a setting of yours, by words and not by shell text:
  [mcp]
  allow = [\"cargo *\", \"git log *\"]
  deny = [\"cargo publish *\"]")]
pub struct McpArgs {
    /// Let agents run commands, as `mcp.allow` and `mcp.deny` say
    #[arg(long)]
    pub allow_run: bool,
    /// Let agents stop sessions
    #[arg(long)]
    pub allow_stop: bool,
    /// Let agents recover, not only see what a recovery would do
    #[arg(long)]
    pub allow_recover: bool,
    /// Serve HTTP here instead: 127.0.0.1:8721; port 0 takes a free one
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub http: Option<SocketAddr>,
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| format!("write HOST:PORT ({error})"))?;
    found.next().ok_or_else(|| "this name has no address".to_owned())
}

/// Serves until the client is gone or a signal arrives.
#[cfg(feature = "mcp")]
pub fn run(args: &McpArgs, context: Context<'_>) -> Result<Exit, Failure> {
    crate::serving::run(args, context)
}

/// Says that there is no server in this build.
#[cfg(not(feature = "mcp"))]
pub fn run(_: &McpArgs, _: Context<'_>) -> Result<Exit, Failure> {
    Err(Failure::new("this build of sexton has no MCP server").hint("build it with the feature `mcp`"))
}
