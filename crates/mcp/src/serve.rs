//! Serves clients and shuts down.
//!
//! This is the only module of the program that creates an async runtime.

use std::io;
use std::net::SocketAddr;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::http::{HttpOptions, SocketError, serve_http};
use crate::server::{Notice, Server};
use crate::stdio::Lines;

/// Maximum number of threads that block for the service.
const BLOCKING_THREADS: usize = 64;

/// Why the server failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The runtime or the signal handlers could not be set up.
    #[error("cannot start the server: {0}")]
    Start(io::Error),
    /// The server could not listen on the address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The Unix socket could not be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The client did not initialize the connection correctly.
    #[error("the client did not initialize as the protocol requires: {0}")]
    Handshake(Box<ServerInitializeError>),
}

/// Serves on standard input and output, or on HTTP, until the client disconnects or a signal arrives. Then stops every
/// session that this server started.
pub fn serve(server: &Server, http: Option<HttpOptions>) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(ServeError::Start)?;
    let served = runtime.block_on(serve_until_signal(server, http));
    // Does not wait for the thread that may still be reading standard input.
    runtime.shutdown_background();
    served
}

async fn serve_until_signal(server: &Server, http: Option<HttpOptions>) -> Result<(), ServeError> {
    let mut signals = Signals::take().map_err(ServeError::Start)?;
    let reaper = tokio::spawn({
        let server = server.clone();
        async move { server.started_sessions().reap_always().await }
    });
    let served = tokio::select! {
        served = async {
            match http {
                None => serve_stdio(server).await,
                Some(options) => serve_http(server, options).await,
            }
        } => served,
        () = signals.next() => Ok(()),
    };
    end(server, &mut signals).await;
    reaper.abort();
    served
}

/// Shuts down. A signal during shutdown kills the sessions that are being stopped: clients close standard input first,
/// and send SIGTERM if the server does not exit soon. A second signal exits at once.
async fn end(server: &Server, signals: &mut Signals) {
    let mut ending = std::pin::pin!(server.shut_down());
    tokio::select! {
        () = &mut ending => return,
        () = signals.next() => server.kill_owned(),
    }
    tokio::select! {
        () = &mut ending => {}
        () = signals.next() => {
            let what = "exited at once; supervisors stop the sessions that still run".to_owned();
            server.notify(Notice::Warning(what));
        }
    }
}

async fn serve_stdio(server: &Server) -> Result<(), ServeError> {
    let lines = Lines::of_this_process(server.started_sessions().closing.clone());
    match server.clone().serve(lines).await {
        // The reason does not matter: the client has disconnected.
        Ok(running) => {
            let _ = running.waiting().await;
            Ok(())
        }
        // A client may disconnect before it sends anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(ServeError::Handshake(Box::new(error))),
    }
}

/// The signals that end a server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn take() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
