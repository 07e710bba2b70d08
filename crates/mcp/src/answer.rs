//! What a tool answers: one object, whose `success` says whether the rest is what was asked for.

use rmcp::model::{CallToolResult, JsonObject};
use serde::Serialize;
use serde_json::Value;

use crate::refusal::Refusal;

/// What a tool answers. A failure may still have something to tell: the output of a command that failed.
#[derive(Debug)]
pub(crate) struct Answer {
    told: JsonObject,
    failed: Option<Refusal>,
}

impl Answer {
    /// What was asked for.
    pub(crate) fn of(told: &impl Serialize) -> Answer {
        let told = match serde_json::to_value(told) {
            Ok(Value::Object(told)) => told,
            // Every answer is a structure of plain fields.
            _ => JsonObject::new(),
        };
        Answer { told, failed: None }
    }

    /// What can be told, though it failed.
    pub(crate) fn failed(told: &impl Serialize, refusal: Refusal) -> Answer {
        Answer { failed: Some(refusal), ..Answer::of(told) }
    }

    /// The answer as clients read it, structured and as text.
    pub(crate) fn into_result(self) -> CallToolResult {
        let mut object = JsonObject::new();
        object.insert("success".to_owned(), self.failed.is_none().into());
        object.extend(self.told);
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
        Answer { told: JsonObject::new(), failed: Some(refusal) }
    }
}
