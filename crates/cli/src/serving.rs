//! The MCP server of this program: its house, its rights, and where its notices go.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use sexton_core::config::{Config, Origin};
use sexton_embed::House;
use sexton_mcp::{Grants, Herald, HttpOptions, Notice, Rights, ServeError, Server, serve};

use crate::commands::mcp::McpArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::screen::Screen;

/// Serves until the client is gone or a signal arrives.
pub fn run(args: &McpArgs, context: Context<'_>) -> Result<Exit, Failure> {
    let (house, screen) = context.into_parts();
    let grants = Grants { run: args.allow_run, stop: args.allow_stop, recover: args.allow_recover };
    let rights = Rights::new(grants, &house.config).map_err(|error| {
        Failure::usage(error.to_string()).hint("a pattern is words, such as `cargo *`; docs/mcp.md says more")
    })?;
    let http = args.http.map(|address| http_options(address, &house, screen));
    if http.is_none() && std::io::stdin().is_terminal() {
        screen.note("this is a server: a client starts it and speaks to it on standard input");
        screen.hint("docs/mcp.md has the settings for Claude Code, Codex and Claude Desktop; Ctrl-C ends it");
    }
    let server = Server::new(house, rights, herald());
    serve(&server, http).map_err(|error| {
        let failure = Failure::new(error.to_string());
        match error {
            ServeError::Open(_) => {
                let hint = "set `mcp.token` (or SEXTON_MCP_TOKEN), or listen on 127.0.0.1";
                Failure { exit: Exit::USAGE, ..failure }.hint(hint)
            }
            _ => failure,
        }
    })?;
    Ok(Exit::DONE)
}

fn http_options(address: SocketAddr, house: &House, screen: &Screen) -> HttpOptions {
    warn_of_readable_token(&house.config, screen);
    HttpOptions {
        address,
        token: house.config.mcp_token.value.0.clone(),
        hosts: house.config.mcp_hosts.value.0.clone(),
    }
}

/// A token that others can read keeps nobody out.
fn warn_of_readable_token(config: &Config, screen: &Screen) {
    let (Some(_), Origin::File(path)) = (&config.mcp_token.value.0, &config.mcp_token.origin) else { return };
    if std::fs::metadata(path).is_ok_and(|file| file.mode() & 0o044 != 0) {
        screen.warn(&format!("others can read the token in {}", path.display()));
        screen.hint(&format!("chmod 600 {}", path.display()));
    }
}

/// Says on standard error what the person who runs the server should hear: standard output is the protocol's.
fn herald() -> Herald {
    Arc::new(|notice| {
        let screen = Screen::for_terminal(false);
        match notice {
            Notice::Listening(address) => screen.note(&format!("listening on {address}")),
            Notice::Stopped(1) => screen.note("stopped 1 session"),
            Notice::Stopped(count) => screen.note(&format!("stopped {count} sessions")),
            Notice::Warning(what) => screen.warn(&what),
        }
    })
}
