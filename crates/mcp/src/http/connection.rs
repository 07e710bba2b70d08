//! One connection: handles its requests in order, and holds the resources of each until its response is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::{AsyncRead, AsyncWrite};

use super::body::{Pool, Read, Share};
use super::conversations::{Conversations, InUse};
use super::guard::{Guard, Refused};
use super::limits::{BODY_BYTES, HEADER_BYTES, HEADER_TIME, HEADERS};
use super::slots::Slot;
use super::wire::Wire;
use super::{PATH, limits};

use crate::server::Server;

/// A stream that can carry a connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

type Answer = Response<Held>;

/// The header that names a conversation.
const CONVERSATION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Handles the requests of all connections.
pub(super) struct HttpService {
    guard: Guard,
    pool: Pool,
    conversations: Conversations,
    protocol: StreamableHttpService<Server, LocalSessionManager>,
}

impl HttpService {
    pub(super) fn new(server: &Server, guard: Guard) -> HttpService {
        // The guard checks host and origin, with more rules than rmcp's list of hosts.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_cancellation_token(server.started_sessions().closing.clone())
            .with_max_request_body_bytes(BODY_BYTES);
        let conversations = Conversations::new();
        let manager = Arc::clone(&conversations.manager);
        let server = server.clone();
        let protocol = StreamableHttpService::new(move || Ok(server.clone()), manager, config);
        HttpService { guard, pool: Pool::new(), conversations, protocol }
    }

    async fn answer(&self, request: Request<Incoming>, slot: &Arc<Slot>) -> Answer {
        if let Err(refused) = self.guard.check(request.uri(), request.headers()) {
            return refuse(&refused);
        }
        slot.authorize();
        if request.uri().path() != PATH {
            return plain(StatusCode::NOT_FOUND, "not found: the endpoint is /mcp\n");
        }
        let (head, body) = request.into_parts();
        slot.wait();
        let read = self.pool.read(body).await;
        slot.work();
        let in_progress = InProgress(Arc::clone(slot));
        let Read { bytes, share } = match read {
            Ok(read) => read,
            Err(status) => return refuse_body(status),
        };
        let named = text_of(&head.headers, &CONVERSATION).and_then(|id| self.conversations.enter(id));
        let is_post = head.method == Method::POST;
        let answer = self.protocol.handle(Request::from_parts(head, Full::new(bytes))).await;
        let conversation = match text_of(answer.headers(), &CONVERSATION) {
            Some(begun) if is_post && named.is_none() => match self.conversations.admit(begun).await {
                Some(begun) => Some(begun),
                None => return refuse_body(StatusCode::SERVICE_UNAVAILABLE),
            },
            _ => named,
        };
        let held = Some(in_progress);
        answer.map(|body| Held { body, _conversation: conversation, _share: share, _slot: held })
    }
}

/// Serves the requests of one connection until it is closed or evicted.
pub(super) async fn serve_connection(stream: impl Stream, slot: Arc<Slot>, service: Arc<HttpService>) {
    let wire = Wire::new(stream, Arc::clone(&slot));
    let request_slot = Arc::clone(&slot);
    let answer = service_fn(move |request: Request<Incoming>| {
        let (service, slot) = (Arc::clone(&service), Arc::clone(&request_slot));
        async move { Ok::<_, Infallible>(service.answer(request, &slot).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME);
    builder.max_buf_size(HEADER_BYTES).max_headers(HEADERS);
    tokio::select! {
        // A client may disconnect at any time; that is not an error.
        _ = builder.serve_connection(TokioIo::new(wire), answer) => {}
        () = slot.evicted() => {}
    }
}

/// The body of a response, with the resources that its request holds until it is sent.
pub(super) struct Held {
    body: BoxBody<Bytes, Infallible>,
    _conversation: Option<InUse>,
    _share: Option<Share>,
    _slot: Option<InProgress>,
}

/// A request in progress. When it is dropped, the server waits for the client again.
struct InProgress(Arc<Slot>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.wait();
    }
}

impl Body for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns the first value of a header if it is text.
fn text_of<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn refuse(refused: &Refused) -> Answer {
    let mut answer = plain(refused.status, refused.why);
    if refused.status == StatusCode::UNAUTHORIZED {
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    answer
}

/// Returns the response to a request that exceeds a limit or whose body could not be read.
fn refuse_body(status: StatusCode) -> Answer {
    let why = match status {
        StatusCode::PAYLOAD_TOO_LARGE => "the limit for a message is 4 MiB and 16384 values\n",
        StatusCode::REQUEST_TIMEOUT => "the body was not received in time\n",
        StatusCode::SERVICE_UNAVAILABLE => "the server is at its limit; try again later\n",
        _ => "cannot read the body\n",
    };
    let mut answer = plain(status, why);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(limits::RETRY_AFTER));
    }
    answer
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    let body = Full::new(Bytes::from_static(text.as_bytes())).boxed();
    let mut answer = Response::new(Held { body, _conversation: None, _share: None, _slot: None });
    *answer.status_mut() = status;
    answer
}
