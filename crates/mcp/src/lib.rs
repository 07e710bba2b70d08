//! Sexton for agents: an MCP server whose sessions are durable.
//!
//! The protocol is rmcp's; the work is the house's ([`sexton_embed::House`]). A house blocks, so its work is
//! done on threads that may ([`Server`]). What a server may do is decided in one place, `rights/`, and every
//! tool that changes something asks there first.
//!
//! Architecture invariant: nothing here prints. Standard output belongs to the protocol, and what the person
//! who runs a server should hear goes to their [`Herald`].

mod answer;
mod call;
mod excerpt;
mod http;
mod keeper;
mod refusal;
mod resources;
mod rights;
mod schema;
mod serve;
mod server;
mod stdio;
mod tools;
mod view;
mod wait;
mod words;

pub use http::HttpOptions;
pub use rights::{Grants, PatternError, Rights};
pub use serve::{ServeError, serve};
pub use server::{Herald, Notice, Server};
