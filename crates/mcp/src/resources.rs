//! Sessions as resources: `session://ID` is the record, `session://ID/log` the end of the output.

use rmcp::model::{MetaObject, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use sexton_service::{Output, Service};

use crate::refusal::Refusal;
use crate::tools::list_sessions::{Which, load};

/// URI scheme of all resources.
const SCHEME: &str = "session://";

/// Number of lines read from the end of a log.
const LOG_TAIL: usize = 500;

/// How long a client may cache a resource. Sessions can change at any time.
pub(crate) const FRESH_FOR_MS: u64 = 0;

/// Maximum number of finished sessions listed.
const LISTED: usize = 100;

/// A requested resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Record of a session.
    Record(String),
    /// Output of a session.
    Log(String),
}

impl Wanted {
    /// Parses `uri`. Returns `None` if it is not a resource of this server.
    pub(crate) fn parse(uri: &str) -> Option<Wanted> {
        let rest = uri.strip_prefix(SCHEME)?;
        let (name, log) = rest.strip_suffix("/log").map_or((rest, false), |name| (name, true));
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        if name.is_empty() || !name.chars().all(plain) {
            return None;
        }
        Some(if log { Wanted::Log(name.to_owned()) } else { Wanted::Record(name.to_owned()) })
    }
}

/// Returns the resources of the listed sessions: the record and the output of each.
pub(crate) fn list(service: &Service) -> Result<Vec<Resource>, Refusal> {
    let sessions = load(service, Which::All, None, LISTED)?;
    let both = sessions.iter().flat_map(|listed| {
        let session = &listed.session;
        let title = session.name.clone().unwrap_or_else(|| session.id.to_string());
        let uri = format!("{SCHEME}{}", session.id);
        let record = Resource::new(uri.clone(), session.id.to_string())
            .with_title(format!("{title} ({})", session.status))
            .with_description("The record of the session")
            .with_mime_type("application/json");
        let log = Resource::new(format!("{uri}/log"), format!("{}/log", session.id))
            .with_title(format!("Output of {title}"))
            .with_description("The end of the session's output")
            .with_mime_type("text/plain");
        // Sexton has no output of a session that another program started.
        [Some(record), session.log.is_some().then_some(log)].into_iter().flatten()
    });
    Ok(both.collect())
}

/// Returns the URI templates of the resources.
pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("session://{id}", "session")
            .with_title("A session")
            .with_description("The record of a session, by its id or a prefix of it")
            .with_mime_type("application/json"),
        ResourceTemplate::new("session://{id}/log", "session_log")
            .with_title("The output of a session")
            .with_description("The end of a session's output")
            .with_mime_type("text/plain"),
    ]
}

/// Reads a resource.
pub(crate) fn read(service: &Service, uri: &str, wanted: &Wanted) -> Result<ReadResourceResult, Refusal> {
    let (Wanted::Record(name) | Wanted::Log(name)) = wanted;
    let session = pollster::block_on(service.find_session(name))?;
    let contents = match wanted {
        Wanted::Record(_) => {
            ResourceContents::text(session.to_json(), uri).with_mime_type("application/json")
        }
        Wanted::Log(_) => {
            let mut output = Output::of(&session, false, 0)?;
            output.seek_to_tail(LOG_TAIL)?;
            let begins = output.cursor();
            let part = output.read_part(!session.status.is_active())?;
            let mut meta = MetaObject::new();
            meta.0.insert("cursor".to_owned(), part.cursor.into());
            meta.0.insert("eof".to_owned(), part.eof.into());
            meta.0.insert("truncated".to_owned(), (begins > 0 || part.truncated).into());
            ResourceContents::text(part.output, uri).with_meta(meta)
        }
    };
    Ok(ReadResourceResult::new(vec![contents]).with_ttl_ms(FRESH_FOR_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_session_uris_are_accepted() {
        assert_eq!(Wanted::parse("session://k3v9"), Some(Wanted::Record("k3v9".into())));
        assert_eq!(Wanted::parse("session://k3v9/log"), Some(Wanted::Log("k3v9".into())));
        for uri in
            ["session://", "session:///log", "session://../../etc/passwd", "file:///etc/passwd", "k3v9"]
        {
            assert_eq!(Wanted::parse(uri), None, "{uri}");
        }
    }
}
