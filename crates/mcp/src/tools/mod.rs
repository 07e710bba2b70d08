//! The tools, one file each: arguments, reply and implementation.

mod command_line;
mod execute_command;
pub(crate) mod list_sessions;
mod manage_process;
mod read_output;
mod recover;
mod session;
mod start_session;
mod stop_session;
mod wait_session;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::answer::Answer;
use crate::call::Call;
use crate::refusal::Refusal;
use crate::schema::{answer_schema, input_schema};
use crate::server::Server;

/// A tool.
trait Work {
    /// Name of the tool in the protocol.
    const NAME: &'static str;
    /// Title that clients display.
    const TITLE: &'static str;
    /// Description for the model that selects a tool.
    const DESCRIPTION: &'static str;
    /// What the tool changes.
    const EFFECT: Effect;
    /// Arguments. Unknown ones are rejected.
    type Arguments: DeserializeOwned + JsonSchema + Send + 'static;
    /// Fields of the result.
    type Reply: Serialize + JsonSchema + 'static;

    /// Runs the tool.
    fn work(
        server: &Server,
        arguments: Self::Arguments,
        call: &Call,
    ) -> impl Future<Output = Result<Answer, Refusal>> + Send;
}

/// What a tool changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Nothing.
    Reads,
    /// The tool runs a command.
    Runs,
    /// The tool stops processes.
    Ends,
}

/// Passes every tool to the macro `$each`.
macro_rules! with_each_tool {
    ($each:ident) => {
        $each!(
            execute_command::ExecuteCommand,
            manage_process::ManageProcess,
            start_session::StartSession,
            session::ShowSession,
            wait_session::WaitSession,
            list_sessions::ListSessions,
            read_output::ReadOutput,
            stop_session::StopSession,
            recover::Recover
        )
    };
}

/// Returns all tools, regardless of the server's rights: a refusal names the right that is missing.
pub(crate) fn list() -> Vec<Tool> {
    macro_rules! describe_all {
        ($($tool:ty),*) => { vec![$(describe::<$tool>()),*] };
    }
    with_each_tool!(describe_all)
}

/// Calls a tool. Returns `None` if no tool has that name.
pub(crate) async fn call(server: &Server, name: &str, arguments: JsonObject, call: &Call) -> Option<Answer> {
    macro_rules! call_named {
        ($($tool:ty),*) => {
            match name {
                $(<$tool>::NAME => Some(perform::<$tool>(server, arguments, call).await),)*
                _ => None,
            }
        };
    }
    with_each_tool!(call_named)
}

fn describe<T: Work>() -> Tool {
    let reads = T::EFFECT == Effect::Reads;
    let hints = ToolAnnotations::with_title(T::TITLE)
        .read_only(reads)
        .destructive(T::EFFECT == Effect::Ends || T::EFFECT == Effect::Runs)
        .idempotent(reads)
        .open_world(T::EFFECT == Effect::Runs);
    Tool::new(T::NAME, T::DESCRIPTION, input_schema::<T::Arguments>())
        .with_title(T::TITLE)
        .with_raw_output_schema(answer_schema::<T::Reply>())
        .with_annotations(hints)
}

async fn perform<T: Work>(server: &Server, arguments: JsonObject, call: &Call) -> Answer {
    let arguments = match serde_json::from_value(Value::Object(arguments)) {
        Ok(arguments) => arguments,
        Err(error) => {
            let error = format!("invalid arguments for `{}`: {}", T::NAME, shorten(&error.to_string()));
            return Refusal::of_argument(error).into();
        }
    };
    T::work(server, arguments, call).await.unwrap_or_else(Answer::from)
}

/// Maximum length of an error about an argument, which may quote the argument.
const MAX_ERROR: usize = 400;

fn shorten(text: &str) -> String {
    if text.chars().count() <= MAX_ERROR {
        return text.to_owned();
    }
    text.chars().take(MAX_ERROR).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_input_and_output_schemas() {
        let tools = list();
        assert_eq!(tools.len(), 9);
        for tool in tools {
            let output = tool.output_schema.expect("an output schema");
            for field in ["success", "error", "suggestion"] {
                assert!(output["properties"].get(field).is_some(), "{}: {field}", tool.name);
            }
            assert_eq!(output["required"], serde_json::json!(["success"]));
            assert_eq!(tool.input_schema["type"], "object");
            assert_eq!(tool.input_schema["additionalProperties"], false, "{}", tool.name);
            assert!(tool.description.is_some_and(|text| text.len() > 20));
        }
    }

    #[test]
    fn tool_schemas_match_snapshot() {
        insta::assert_json_snapshot!(list());
    }
}
