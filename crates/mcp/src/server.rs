//! One server: a house, what may be done in it, and the sessions that were started from here.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use sexton_embed::{House, chain};

use crate::call::Call;
use crate::keeper::{Keeper, stop_owned};
use crate::refusal::Refusal;
use crate::rights::Rights;
use crate::{resources, tools};

/// Something that the person who runs a server should hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It serves HTTP at this address.
    Listening(String),
    /// So many sessions were stopped, because the server ends.
    Stopped(usize),
    /// Something went wrong.
    Warning(String),
}

/// Where notices go.
pub type Herald = Arc<dyn Fn(Notice) + Send + Sync>;

/// A server. Clones are the same one: each connection has its own.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    house: House,
    rights: Rights,
    keeper: Keeper,
    herald: Herald,
}

/// What a client reads about the server before it calls anything.
const INSTRUCTIONS: &str = "\
Sexton runs commands as durable sessions: each is recorded before it runs, its output is kept, and when it \
ends nothing of it is left. `execute_command` runs something short and returns its output. `start_session` runs \
something long; read what is new with `read_output` (pass back the cursor), wait with `wait_session`, end it \
with `stop_session`. Sessions that were started here end with this server. Every answer has `success`, and on \
failure `error` and `suggestion`.";

impl Server {
    /// A server on `house` that may do what `rights` say.
    pub fn new(house: House, rights: Rights, herald: Herald) -> Server {
        Server { inner: Arc::new(Inner { house, rights, keeper: Keeper::new(), herald }) }
    }

    pub(crate) fn house(&self) -> &House {
        &self.inner.house
    }

    pub(crate) fn rights(&self) -> &Rights {
        &self.inner.rights
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        &self.inner.keeper
    }

    pub(crate) fn tell(&self, notice: Notice) {
        (self.inner.herald)(notice);
    }

    /// Does work that blocks, on a thread that may.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Server) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let server = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&server)).await;
        done.unwrap_or_else(|_| Err(Refusal::internal("the call failed inside the server")))
    }

    /// Ends what was started here: lets nothing begin any more, stops every session that this server owns,
    /// and waits for all of it. What cannot be stopped now is ended by its supervisor, whose owner dies.
    pub(crate) async fn shut_down(&self) {
        if !self.keeper().close().await {
            self.tell(Notice::Warning(
                "a session was still being started; its supervisor ends it".to_owned(),
            ));
        }
        let stopped = tokio::task::spawn_blocking({
            let server = self.clone();
            move || stop_owned(server.house(), server.house().config.stop_grace.value)
        });
        match stopped.await {
            Ok(Ok(stopped)) if stopped.is_empty() => {}
            Ok(Ok(stopped)) => {
                for one in stopped.iter().filter(|one| !one.survivors.is_empty()) {
                    let what = format!("session {} could not be ended whole", one.session.id);
                    self.tell(Notice::Warning(what));
                }
                self.tell(Notice::Stopped(stopped.len()));
            }
            Ok(Err(error)) => {
                let what =
                    format!("sessions could not be stopped: {}; their supervisors end them", chain(&error));
                self.tell(Notice::Warning(what));
            }
            Err(_) => self.tell(Notice::Warning("stopping sessions failed inside the server".to_owned())),
        }
        // Where that fails they are nobody's zombies for longer than this process lives.
        let _ = self.keeper().wait_for_supervisors().await;
    }

    /// Kills what is being stopped: whoever insists does not want to wait for a grace period.
    pub(crate) fn hurry(&self) {
        let server = self.clone();
        // Its outcome is that of the shutdown, which sees everything gone sooner.
        drop(tokio::task::spawn_blocking(move || stop_owned(server.house(), Duration::ZERO)));
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
        match tools::call(self, &request.name, arguments, &call).await {
            Some(answer) => Ok(answer.into_result().into()),
            None => {
                let name: String = request.name.chars().take(80).collect();
                Err(ErrorData::invalid_params(format!("there is no tool `{}`", name.escape_debug()), None))
            }
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let listed = self.blocking(|server| resources::list(server.house())).await;
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
            return Err(ErrorData::resource_not_found(format!("no resource `{}`", uri.escape_debug()), None));
        };
        let read = self.blocking(move |server| resources::read(server.house(), &request.uri, &wanted)).await;
        Ok(read.map_err(protocol_error)?.into())
    }
}

/// A resource that cannot be had: there is no structure to say so in but the protocol's own.
fn protocol_error(refusal: Refusal) -> ErrorData {
    let data = serde_json::json!({"suggestion": refusal.suggestion});
    ErrorData::resource_not_found(refusal.error, Some(data))
}
