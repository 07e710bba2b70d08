//! The result of a tool: one object, whose `success` says whether the call succeeded.

use rmcp::model::{CallToolResult, JsonObject};
use serde::Serialize;
use serde_json::Value;

use crate::refusal::Refusal;

/// The result of a tool. A failure can have fields too, such as the output of a failed command.
#[derive(Debug)]
pub(crate) struct Answer {
    fields: JsonObject,
    failed: Option<Refusal>,
}

impl Answer {
    /// Creates the result of a successful call.
    pub(crate) fn of(reply: &impl Serialize) -> Answer {
        let fields = match serde_json::to_value(reply) {
            Ok(Value::Object(fields)) => fields,
            // Every reply is a struct of plain fields.
            _ => JsonObject::new(),
        };
        Answer { fields, failed: None }
    }

    /// Creates the result of a failed call that has fields.
    pub(crate) fn failed(reply: &impl Serialize, refusal: Refusal) -> Answer {
        Answer { failed: Some(refusal), ..Answer::of(reply) }
    }

    /// Converts to the protocol's result, as structured content and as text.
    pub(crate) fn into_result(self) -> CallToolResult {
        let mut object = JsonObject::new();
        object.insert("success".to_owned(), self.failed.is_none().into());
        object.extend(self.fields);
        match self.failed {
            None => CallToolResult::structured(Value::Object(object)),
            Some(Refusal { error, suggestion }) => {
                object.insert("error".to_owned(), error.into());
                object.insert("suggestion".to_owned(), suggestion.into());
                CallToolResult::structured_error(Value::Object(object))
            }
        }
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        Answer { fields: JsonObject::new(), failed: Some(refusal) }
    }
}
