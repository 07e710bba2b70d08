//! From the first message to the last: serving, and ending in good order.
//!
//! The runtime lives here and nowhere else in the program.

use std::io;
use std::net::SocketAddr;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::http::{HttpOptions, serve_http};
use crate::server::{Notice, Server};
use crate::stdio::Lines;

/// How many threads block at the same time for the house.
const BLOCKING_THREADS: usize = 64;

/// Why a server could not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The runtime or the signals.
    #[error("cannot start the server: {0}")]
    Start(io::Error),
    /// Others could reach it, and anybody could call it.
    #[error("{0} can be reached from other machines, and no token is configured")]
    Open(SocketAddr),
    /// The address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The client's first words.
    #[error("the client did not begin as the protocol asks: {0}")]
    Handshake(Box<ServerInitializeError>),
}

/// Serves on standard input and output, or on HTTP, until the client is gone or a signal arrives. Then every
/// session that was started here is stopped.
pub fn serve(server: &Server, http: Option<HttpOptions>) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(ServeError::Start)?;
    let served = runtime.block_on(serve_until_told(server, http));
    // A thread may still be reading standard input: nobody waits for that.
    runtime.shutdown_background();
    served
}

async fn serve_until_told(server: &Server, http: Option<HttpOptions>) -> Result<(), ServeError> {
    let mut signals = Signals::take().map_err(ServeError::Start)?;
    let reaper = tokio::spawn({
        let server = server.clone();
        async move { server.keeper().reap_always().await }
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

/// Ends in good order. A signal on the way kills what is being stopped: clients close standard input first,
/// and send SIGTERM to a server that takes its time. Another one ends the server where it stands.
async fn end(server: &Server, signals: &mut Signals) {
    let mut ending = std::pin::pin!(server.shut_down());
    tokio::select! {
        () = &mut ending => return,
        () = signals.next() => server.hurry(),
    }
    tokio::select! {
        () = &mut ending => {}
        () = signals.next() => {
            let what = "ended at once; what still runs is ended by its supervisor".to_owned();
            server.tell(Notice::Warning(what));
        }
    }
}

async fn serve_stdio(server: &Server) -> Result<(), ServeError> {
    let lines = Lines::of_this_process(server.keeper().closing.clone());
    match server.clone().serve(lines).await {
        // How it ended does not matter: there is nobody left to serve.
        Ok(running) => {
            let _ = running.waiting().await;
            Ok(())
        }
        // A client that left before it said anything is no mistake of anybody.
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
