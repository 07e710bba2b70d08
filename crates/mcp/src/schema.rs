//! The input and output schemas of tools, in a form that all clients accept.

use std::sync::Arc;

use rmcp::handler::server::common::{schema_for_input, schema_for_output};
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde_json::{Value, json};

/// Returns the input schema of the arguments `T`.
pub(crate) fn input_schema<T: JsonSchema + 'static>() -> Arc<JsonObject> {
    // Arguments are structs, whose schemas are always objects.
    let schema = schema_for_input::<T>().unwrap_or_default();
    Arc::new(plain(schema.as_ref().clone()))
}

/// Returns the output schema of a tool that replies with `T`. Only `success` is required, because a failure may have
/// none of the other fields.
pub(crate) fn answer_schema<T: JsonSchema + 'static>() -> Arc<JsonObject> {
    let mut schema = schema_for_output::<T>().as_ref().clone();
    let mut properties = JsonObject::new();
    properties.insert(
        "success".to_owned(),
        json!({"type": "boolean", "description": "Whether the call succeeded."}),
    );
    if let Some(Value::Object(fields)) = schema.remove("properties") {
        properties.extend(fields);
    }
    let text = |what: &str| json!({"type": "string", "description": what});
    properties.insert("error".to_owned(), text("What failed, on what, and why. Only on failure."));
    properties.insert("suggestion".to_owned(), text("What to do about it. Only on failure."));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("required".to_owned(), json!(["success"]));
    Arc::new(plain(schema))
}

/// Removes what is specific to Rust: number formats such as `uint64`, which JSON Schema does not define, and the line
/// breaks of doc comments.
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
