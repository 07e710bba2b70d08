//! The tools, one file each: its arguments, what it tells, and what it does, beside each other.

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
    /// What clients call it by.
    const NAME: &'static str;
    /// What people see.
    const TITLE: &'static str;
    /// What it does, for whoever decides to call it.
    const DESCRIPTION: &'static str;
    /// What it changes.
    const EFFECT: Effect;
    /// What it is called with. One that does not exist is refused.
    type Arguments: DeserializeOwned + JsonSchema + Send + 'static;
    /// What it tells.
    type Told: Serialize + JsonSchema + 'static;

    /// Does it.
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
    /// It runs what it is told to.
    Runs,
    /// It ends processes.
    Ends,
}

/// Gives every tool to the macro `$each`.
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

/// Every tool there is, whatever this server may do: a refusal says what would have to be allowed.
pub(crate) fn list() -> Vec<Tool> {
    macro_rules! describe_all {
        ($($tool:ty),*) => { vec![$(describe::<$tool>()),*] };
    }
    with_each_tool!(describe_all)
}

/// Calls a tool; `None` where there is none of that name.
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
        .with_raw_output_schema(answer_schema::<T::Told>())
        .with_annotations(hints)
}

async fn perform<T: Work>(server: &Server, arguments: JsonObject, call: &Call) -> Answer {
    let arguments = match serde_json::from_value(Value::Object(arguments)) {
        Ok(arguments) => arguments,
        Err(error) => {
            let error = format!("`{}` cannot be called like this: {}", T::NAME, shorten(&error.to_string()));
            return Refusal::of_argument(error).into();
        }
    };
    T::work(server, arguments, call).await.unwrap_or_else(Answer::from)
}

/// The longest complaint about an argument: it may quote what it complains of.
const MAX_COMPLAINT: usize = 400;

fn shorten(text: &str) -> String {
    if text.chars().count() <= MAX_COMPLAINT {
        return text.to_owned();
    }
    text.chars().take(MAX_COMPLAINT).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_says_what_it_takes_and_what_it_tells() {
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
    fn the_tools_and_their_schemas_stay_what_clients_know() {
        insta::assert_json_snapshot!(list());
    }
}
