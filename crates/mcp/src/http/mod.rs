//! The protocol on HTTP. Every request passes the guard before anybody looks at what it asks for.

mod guard;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use sexton_core::config::Secret;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use guard::{Guard, Refused};

use crate::serve::ServeError;
use crate::server::{Notice, Server};
use crate::stdio::MAX_MESSAGE;

/// Where the protocol is spoken.
const PATH: &str = "/mcp";

/// How many connections are served at the same time; more wait.
const CONNECTIONS: usize = 128;

/// How long a client has to say what it wants.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a client's own state is kept while it says nothing: longer than any call takes.
const IDLE: Duration = Duration::from_secs(2 * 60 * 60);

/// How long to wait after a connection could not be taken, such as where there are too many.
const PAUSE: Duration = Duration::from_millis(100);

/// How HTTP is served.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Where to listen.
    pub address: SocketAddr,
    /// What every request must bear.
    pub token: Option<Secret>,
    /// Names besides `localhost` that the server goes by.
    pub hosts: Vec<String>,
}

type Answer = Response<BoxBody<Bytes, Infallible>>;
type Protocol = TowerToHyperService<StreamableHttpService<Server, LocalSessionManager>>;

/// Serves until the server ends.
pub(crate) async fn serve_http(server: &Server, options: HttpOptions) -> Result<(), ServeError> {
    let address = options.address;
    if !address.ip().is_loopback() && options.token.is_none() {
        return Err(ServeError::Open(address));
    }
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let listening = listener.local_addr().map_err(failed)?;
    let guard = Arc::new(Guard::new(listening.ip(), options.token.as_ref(), options.hosts));
    let protocol = protocol(server);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    server.tell(Notice::Listening(format!("http://{listening}{PATH}")));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (guard, protocol) = (Arc::clone(&guard), protocol.clone());
                tokio::spawn(async move {
                    serve_connection(stream, guard, protocol).await;
                    drop(place);
                });
            }
            Err(error) => {
                server.tell(Notice::Warning(format!("cannot take a connection: {error}")));
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn protocol(server: &Server) -> Protocol {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(IDLE);
    // The guard has looked at host and origin already, and knows more about them.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_cancellation_token(server.keeper().closing.clone())
        .with_max_request_body_bytes(MAX_MESSAGE);
    let server = server.clone();
    let service = StreamableHttpService::new(move || Ok(server.clone()), Arc::new(sessions), config);
    TowerToHyperService::new(service)
}

async fn serve_connection(stream: TcpStream, guard: Arc<Guard>, protocol: Protocol) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (guard, protocol) = (Arc::clone(&guard), protocol.clone());
        async move { answer(request, &guard, &protocol).await }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    // A client that breaks off is no news.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    guard: &Guard,
    protocol: &Protocol,
) -> Result<Answer, Infallible> {
    if let Err(refused) = guard.check(request.uri(), request.headers()) {
        return Ok(refuse(&refused));
    }
    if request.uri().path() != PATH {
        return Ok(plain(StatusCode::NOT_FOUND, "the protocol is spoken at /mcp\n"));
    }
    hyper::service::Service::call(protocol, request).await
}

fn refuse(refused: &Refused) -> Answer {
    let mut answer = plain(refused.status, refused.why);
    if refused.status == StatusCode::UNAUTHORIZED {
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    }
    answer
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer
}
