//! Starts the MCP server: its service, its permissions, and where its notices are printed.

use std::fs::File;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use sexton_core::config::{Origin, Secret};
use sexton_mcp::{
    Grants, HttpOptions, Listen, Notice, NoticeSink, Rights, ServeError, Server, SocketError, TokenError,
    load_or_make_token, load_token, require_private, serve,
};
use sexton_service::{Service, require_state_dir};

use crate::commands::mcp::{HttpAddress, McpArgs};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::screen::Screen;

/// Serves until the client disconnects or a signal arrives.
pub fn run(args: &McpArgs, context: Context<'_>) -> Result<Exit, Failure> {
    let (service, screen) = context.into_parts();
    let grants = Grants { run: args.allow_run, stop: args.allow_stop, recover: args.allow_recover };
    let rights = Rights::new(grants, &service.config).map_err(|error| {
        Failure::usage(error.to_string())
            .hint("a pattern is a list of words, such as `cargo *`; see docs/mcp.md")
    })?;
    let http = args.http.as_ref().map(|address| http_options(address, args, &service, screen)).transpose()?;
    if http.is_none() && std::io::stdin().is_terminal() {
        screen.note("this is an MCP server; a client starts it and sends requests on standard input");
        screen.hint(
            "docs/mcp.md has the settings for Claude Code, Codex and Claude Desktop; press Ctrl-C to exit",
        );
    }
    let server = Server::new(service, rights, notice_sink());
    serve(&server, http).map_err(|error| {
        let failure = Failure::new(error.to_string());
        match error {
            ServeError::Socket(SocketError::Exposed { directory, .. }) => {
                failure.hint(format!("use a private directory: mkdir -m 700 {}/sexton", directory.display()))
            }
            ServeError::Socket(SocketError::InUse(_) | SocketError::Occupied { .. }) => {
                failure.hint("choose another path for the socket")
            }
            _ => failure,
        }
    })?;
    Ok(Exit::DONE)
}

fn http_options(
    address: &HttpAddress,
    args: &McpArgs,
    service: &Service,
    screen: &Screen,
) -> Result<HttpOptions, Failure> {
    let listen = match address {
        HttpAddress::Tcp(address) => {
            Listen::Tcp(*address, require_token(*address, args.token_file.as_deref(), service, screen)?)
        }
        HttpAddress::Unix(_) if args.token_file.is_some() => {
            return Err(Failure::usage(
                "`--token-file` cannot be used with a Unix socket, which needs no token",
            )
            .hint("remove `--token-file`"));
        }
        HttpAddress::Unix(path) => Listen::Unix(path.clone()),
    };
    Ok(HttpOptions { listen, hosts: service.config.mcp_hosts.value.0.clone() })
}

/// Returns the token that every request over TCP must carry: from `--token-file`, from the settings, or from the
/// state directory.
fn require_token(
    address: SocketAddr,
    file: Option<&Path>,
    service: &Service,
    screen: &Screen,
) -> Result<Secret, Failure> {
    if let Some(path) = file {
        return load_token(path).map_err(token_failure);
    }
    let setting = &service.config.mcp_token;
    if let Some(token) = &setting.value.0 {
        if let Origin::File(path) = &setting.origin {
            let opened = File::open(path);
            let opened =
                opened.map_err(|source| TokenError::Io { doing: "read", path: path.clone(), source });
            opened.and_then(|file| require_private(&file, path)).map_err(token_failure)?;
        }
        return Ok(token.clone());
    }
    if !address.ip().is_loopback() {
        // Clients on other machines could not read a token that is generated here.
        let what = format!("{address} is reachable from other machines, and no token is configured");
        let hint = "set SEXTON_MCP_TOKEN, `mcp.token` or `--token-file`, or listen on 127.0.0.1";
        return Err(Failure::usage(what).hint(hint));
    }
    require_state_dir(service.state_dir())?;
    let (token, path) = load_or_make_token(service.state_dir()).map_err(token_failure)?;
    screen.note(&format!("every request needs the token in {}", path.display()));
    Ok(token)
}

fn token_failure(error: TokenError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        TokenError::Exposed { path, .. } => failure.hint(format!("chmod 600 {}", path.display())),
        TokenError::Unusable { path, .. } => {
            failure.hint(format!("(umask 077; openssl rand -hex 32 > {})", path.display()))
        }
        TokenError::Io { .. } => failure,
    }
}

/// Prints notices on standard error, because standard output carries the protocol.
fn notice_sink() -> NoticeSink {
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
