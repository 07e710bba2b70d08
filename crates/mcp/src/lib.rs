//! An MCP server that runs commands as durable sessions.
//!
//! rmcp implements the protocol, [`sexton_service::Service`] the operations. The service blocks, so [`Server`] calls
//! it on blocking threads. `rights/` alone decides what a server may do, and every tool that changes something
//! calls it first.
//!
//! Architecture invariant: this crate does not print. Standard output carries the protocol; messages for the user who
//! started the server go to its [`NoticeSink`].

mod answer;
mod call;
mod excerpt;
mod http;
mod refusal;
mod resources;
mod rights;
mod schema;
mod serve;
mod server;
mod started_sessions;
mod stdio;
mod tools;
mod view;
mod wait;
mod words;

pub use http::{
    HttpOptions, Listen, SocketError, TokenError, load_or_make_token, load_token, require_private,
};
pub use rights::{Grants, PatternError, Rights};
pub use serve::{ServeError, serve};
pub use server::{Notice, NoticeSink, Server};
