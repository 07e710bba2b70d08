//! `sexton mcp`: a Model Context Protocol server for agents.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::Args;

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Run a Model Context Protocol server for agents, on standard input and output or over HTTP.
///
/// Without flags the server is read-only. The sessions that it starts end with it: the server stops them when its
/// client disconnects or when it is terminated, and if the server is killed, their supervisors stop them.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton mcp                                 agents may list sessions and read their output
  sexton mcp --allow-run --allow-stop        agents may also run commands and stop sessions
  claude mcp add sexton -- sexton mcp --allow-run --allow-stop
  sexton mcp --http 127.0.0.1:8721           for several clients; each request must carry a token
  sexton mcp --http unix:/run/user/1000/sexton/mcp.sock
                                             for several clients of this user, without a token

Your configuration determines which commands may run. Patterns match words, not shell text:
  [mcp]
  allow = [\"cargo *\", \"git log *\"]
  deny = [\"cargo publish *\"]")]
pub struct McpArgs {
    /// Allow agents to run commands, subject to `mcp.allow` and `mcp.deny`
    #[arg(long)]
    pub allow_run: bool,
    /// Allow agents to stop sessions
    #[arg(long)]
    pub allow_stop: bool,
    /// Allow agents to run a recovery instead of only a dry run
    #[arg(long)]
    pub allow_recover: bool,
    /// Serve HTTP on this address: HOST:PORT (port 0 selects a free port), or unix:PATH for a Unix socket
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub http: Option<HttpAddress>,
    /// File with the token that every request over TCP must carry [default: `mcp.token`, or the token in the
    /// state directory]
    #[arg(long, value_name = "FILE", requires = "http")]
    pub token_file: Option<PathBuf>,
}

/// The address on which HTTP is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpAddress {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

fn parse_address(text: &str) -> Result<HttpAddress, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        let is_named = !path.is_empty() && !path.ends_with('/');
        return if is_named {
            Ok(HttpAddress::Unix(path.into()))
        } else {
            Err("expected unix:PATH".to_owned())
        };
    }
    let mut found =
        text.to_socket_addrs().map_err(|error| format!("expected HOST:PORT or unix:PATH ({error})"))?;
    found.next().map(HttpAddress::Tcp).ok_or_else(|| "the host name has no address".to_owned())
}

/// Serves until the client disconnects or a signal arrives.
#[cfg(feature = "mcp")]
pub fn run(args: &McpArgs, context: Context<'_>) -> Result<Exit, Failure> {
    crate::serving::run(args, context)
}

/// Fails, because this build has no MCP server.
#[cfg(not(feature = "mcp"))]
pub fn run(_: &McpArgs, _: Context<'_>) -> Result<Exit, Failure> {
    Err(Failure::new("this build of sexton has no MCP server").hint("build with the feature `mcp`"))
}
