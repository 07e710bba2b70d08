//! The schemas of what tools take and tell, as every client understands them.

use std::sync::Arc;

use rmcp::handler::server::common::{schema_for_input, schema_for_output};
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde_json::{Value, json};

/// The schema of the arguments `T`.
pub(crate) fn input_schema<T: JsonSchema + 'static>() -> Arc<JsonObject> {
    // Arguments are structures, whose schemas are those of objects.
    let schema = schema_for_input::<T>().unwrap_or_default();
    Arc::new(plain(schema.as_ref().clone()))
}

/// The schema of a tool that tells `T`. Only `success` is always there: a failure tells what it can.
pub(crate) fn answer_schema<T: JsonSchema + 'static>() -> Arc<JsonObject> {
    let mut schema = schema_for_output::<T>().as_ref().clone();
    let mut properties = JsonObject::new();
    properties
        .insert("success".to_owned(), json!({"type": "boolean", "description": "Whether it was done."}));
    if let Some(Value::Object(told)) = schema.remove("properties") {
        properties.extend(told);
    }
    let text = |what: &str| json!({"type": "string", "description": what});
    properties.insert("error".to_owned(), text("What failed, on what, and why; only of a failure."));
    properties.insert("suggestion".to_owned(), text("What to do about it; only of a failure."));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("required".to_owned(), json!(["success"]));
    Arc::new(plain(schema))
}

/// The schema without what only Rust knows: the width of a number is no format of JSON Schema, and where a
/// line of a comment was broken means nothing.
fn plain(schema: JsonObject) -> JsonObject {
    let is_width = |key: &str, value: &Value| {
        key == "format" && value.as_str().is_some_and(|format| !format.starts_with("date"))
    };
    let kept = schema.into_iter().filter(|(key, value)| !is_width(key, value));
    kept.map(|(key, value)| {
        let value = match value {
            Value::String(text) if key == "description" => Value::String(text.replace('\n', " ")),
            other => plain_value(other),
        };
        (key, value)
    })
    .collect()
}

fn plain_value(value: Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(plain(object)),
        Value::Array(values) => Value::Array(values.into_iter().map(plain_value).collect()),
        other => other,
    }
}
