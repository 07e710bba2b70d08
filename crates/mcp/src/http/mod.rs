//! The protocol over HTTP: on TCP with a token, or on a Unix socket. The guard checks every request before it is
//! processed, and everything that a client can make the server hold has a limit.

mod body;
mod connection;
mod conversations;
mod guard;
mod limits;
mod slots;
mod socket;
mod token;
mod wire;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use sexton_core::config::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use connection::{HttpService, Stream, serve_connection};
use guard::Guard;
use limits::{ACCEPT_PAUSE, REJECT_TIME, REJECTIONS_AT_ONCE, RETRY_AFTER};
use slots::{Peer, Slots};
use socket::{Socket, admitted_process};

use crate::serve::ServeError;
use crate::server::{Notice, Server};

pub use socket::SocketError;
pub use token::{TokenError, load_or_make_token, load_token, require_private};

/// Path of the endpoint.
const PATH: &str = "/mcp";

/// The address that a server listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// TCP, with the token that every request must carry.
    Tcp(SocketAddr, Secret),
    /// A Unix socket, for processes of the same user.
    Unix(PathBuf),
}

/// Options for serving HTTP.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Where to listen.
    pub listen: Listen,
    /// Host names of the server besides `localhost`.
    pub hosts: Vec<String>,
}

/// Serves HTTP until the server shuts down.
pub(crate) async fn serve_http(server: &Server, options: HttpOptions) -> Result<(), ServeError> {
    match options.listen {
        Listen::Tcp(address, token) => serve_tcp(server, address, &token, options.hosts).await,
        Listen::Unix(path) => {
            let socket = Socket::open(&path).await?;
            serve_unix(server, &socket, options.hosts).await
        }
    }
}

async fn serve_tcp(
    server: &Server,
    address: SocketAddr,
    token: &Secret,
    hosts: Vec<String>,
) -> Result<(), ServeError> {
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let listening = listener.local_addr().map_err(failed)?;
    let acceptor = Acceptor::new(server, Guard::of_address(listening.ip(), token, hosts));
    server.notify(Notice::Listening(format!("http://{listening}{PATH}")));
    loop {
        match listener.accept().await {
            Ok((stream, from)) => acceptor.accept(stream, Peer::Address(from.ip().to_canonical())),
            Err(error) => acceptor.pause(&error).await,
        }
    }
}

async fn serve_unix(server: &Server, socket: &Socket, hosts: Vec<String>) -> Result<(), ServeError> {
    let acceptor = Acceptor::new(server, Guard::of_socket(hosts));
    server.notify(Notice::Listening(format!("unix:{}", socket.path().display())));
    loop {
        match socket.listener.accept().await {
            Ok((stream, _)) => {
                // Another user gets no response, not even proof that this is a server.
                let Some(process) = admitted_process(&stream) else { continue };
                acceptor.accept(stream, Peer::Process(process));
            }
            Err(error) => acceptor.pause(&error).await,
        }
    }
}

/// Accepts connections and assigns them slots.
struct Acceptor {
    server: Server,
    service: Arc<HttpService>,
    slots: Slots,
    rejections: Arc<Semaphore>,
}

impl Acceptor {
    fn new(server: &Server, guard: Guard) -> Acceptor {
        Acceptor {
            server: server.clone(),
            service: Arc::new(HttpService::new(server, guard)),
            slots: Slots::default(),
            rejections: Arc::new(Semaphore::new(REJECTIONS_AT_ONCE)),
        }
    }

    /// Serves a connection, or rejects it if no slot is available.
    fn accept(&self, stream: impl Stream, peer: Peer) {
        match self.slots.take(peer) {
            Some(slot) => {
                tokio::spawn(serve_connection(stream, Arc::new(slot), Arc::clone(&self.service)));
            }
            None => self.reject(stream),
        }
    }

    fn reject(&self, mut stream: impl Stream) {
        let Ok(permit) = Arc::clone(&self.rejections).try_acquire_owned() else { return };
        tokio::spawn(async move {
            let answer = format!(
                "HTTP/1.1 503 Service Unavailable\r\nRetry-After: {RETRY_AFTER}\r\nConnection: close\r\n\
                 Content-Length: 0\r\n\r\n"
            );
            // A client that is still writing would not see the response if the connection were closed at once.
            let _ = timeout(REJECT_TIME, async {
                stream.write_all(answer.as_bytes()).await?;
                stream.shutdown().await?;
                let mut rest = [0; 4096];
                while stream.read(&mut rest).await? > 0 {}
                std::io::Result::Ok(())
            })
            .await;
            drop(permit);
        });
    }

    async fn pause(&self, error: &std::io::Error) {
        self.server.notify(Notice::Warning(format!("cannot accept a connection: {error}")));
        sleep(ACCEPT_PAUSE).await;
    }
}
