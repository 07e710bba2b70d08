//! The MCP server: a service, the rights of its clients, and the sessions started by it.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use sexton_service::{Service, chain};
use tokio::sync::Semaphore;

use crate::call::Call;
use crate::refusal::Refusal;
use crate::rights::Rights;
use crate::started_sessions::{StartedSessions, stop_owned};
use crate::{resources, tools};

/// A message for the user who started the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The server listens at this address.
    Listening(String),
    /// This number of sessions was stopped during shutdown.
    Stopped(usize),
    /// Something went wrong.
    Warning(String),
}

/// Receives the notices of a server.
pub type NoticeSink = Arc<dyn Fn(Notice) + Send + Sync>;

/// An MCP server. Clones share its state; each connection has a clone.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    service: Service,
    rights: Rights,
    started_sessions: StartedSessions,
    /// One permit for each call in progress.
    calls: Semaphore,
    notice_sink: NoticeSink,
}

/// Maximum number of calls in progress. A call whose client has disconnected counts until it is done.
const MAX_CALLS: usize = 256;

/// The instructions that the server sends to clients.
const INSTRUCTIONS: &str = "\
Sexton runs commands as durable sessions: each is recorded before it runs, its output is kept, and no process \
of it remains after it ends. `execute_command` runs a short command and returns its output. `start_session` starts a \
long one; read new output with `read_output` (pass back the cursor), wait with `wait_session`, stop it with \
`stop_session`. Sessions started by this server end with it. Every result has `success`, and on failure \
`error` and `suggestion`.";

impl Server {
    /// Creates a server for `service` with `rights`.
    pub fn new(service: Service, rights: Rights, notice_sink: NoticeSink) -> Server {
        Server {
            inner: Arc::new(Inner {
                service,
                rights,
                started_sessions: StartedSessions::new(),
                calls: Semaphore::new(MAX_CALLS),
                notice_sink,
            }),
        }
    }

    pub(crate) fn service(&self) -> &Service {
        &self.inner.service
    }

    pub(crate) fn rights(&self) -> &Rights {
        &self.inner.rights
    }

    pub(crate) fn started_sessions(&self) -> &StartedSessions {
        &self.inner.started_sessions
    }

    pub(crate) fn notify(&self, notice: Notice) {
        (self.inner.notice_sink)(notice);
    }

    /// Runs `work` on a blocking thread.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Server) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let server = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&server)).await;
        done.unwrap_or_else(|_| Err(Refusal::internal("the call failed with an internal error")))
    }

    /// Rejects new starts, stops every session that this server owns, and waits for their supervisors. A session that
    /// cannot be stopped now is stopped by its supervisor when this process, its owner, exits.
    pub(crate) async fn shut_down(&self) {
        if !self.started_sessions().close().await {
            self.notify(Notice::Warning("a session was still starting; its supervisor stops it".to_owned()));
        }
        let stopped = tokio::task::spawn_blocking({
            let server = self.clone();
            move || stop_owned(server.service(), server.service().config.stop_grace.value)
        });
        match stopped.await {
            Ok(Ok(stopped)) if stopped.is_empty() => {}
            Ok(Ok(stopped)) => {
                for one in stopped.iter().filter(|one| !one.survivors.is_empty()) {
                    let what = format!("some processes of session {} could not be stopped", one.session.id);
                    self.notify(Notice::Warning(what));
                }
                self.notify(Notice::Stopped(stopped.len()));
            }
            Ok(Err(error)) => {
                let what =
                    format!("cannot stop the sessions: {}; their supervisors stop them", chain(&error));
                self.notify(Notice::Warning(what));
            }
            Err(_) => {
                self.notify(Notice::Warning(
                    "stopping the sessions failed with an internal error".to_owned(),
                ));
            }
        }
        // On failure, zombies remain only until this process exits.
        let _ = self.started_sessions().wait_for_supervisors().await;
    }

    /// Sends SIGKILL to the sessions that are being stopped, without waiting for the grace period.
    pub(crate) fn kill_owned(&self) {
        let server = self.clone();
        // The result is not needed: the shutdown in progress reports the outcome.
        drop(tokio::task::spawn_blocking(move || stop_owned(server.service(), Duration::ZERO)));
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("sexton", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::list().into_iter().find(|tool| tool.name == name)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let call = Call::new(&context);
        let Ok(_permit) = self.inner.calls.try_acquire() else {
            let error = format!("the limit of {MAX_CALLS} calls in progress is reached");
            return Err(ErrorData::internal_error(error, None));
        };
        match tools::call(self, &request.name, arguments, &call).await {
            Some(answer) => Ok(answer.into_result().into()),
            None => {
                let name: String = request.name.chars().take(80).collect();
                Err(ErrorData::invalid_params(format!("unknown tool `{}`", name.escape_debug()), None))
            }
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let listed = self.blocking(|server| resources::list(server.service())).await;
        let listed = ListResourcesResult::with_all_items(listed.map_err(protocol_error)?);
        Ok(listed.with_ttl_ms(resources::FRESH_FOR_MS))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let Some(wanted) = resources::Wanted::parse(&request.uri) else {
            let uri: String = request.uri.chars().take(200).collect();
            return Err(ErrorData::resource_not_found(
                format!("resource not found: `{}`", uri.escape_debug()),
                None,
            ));
        };
        let read =
            self.blocking(move |server| resources::read(server.service(), &request.uri, &wanted)).await;
        Ok(read.map_err(protocol_error)?.into())
    }
}

/// Converts a refusal to a protocol error, because resources have no result with `success` and `error`.
fn protocol_error(refusal: Refusal) -> ErrorData {
    let data = serde_json::json!({"suggestion": refusal.suggestion});
    ErrorData::resource_not_found(refusal.error, Some(data))
}
