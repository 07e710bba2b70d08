//! Translates a [`Query`] to SQL, so that filtered records are never deserialised.

use rusqlite::types::Value;
use sexton_core::{Query, Status};

use crate::rows::{COLUMNS, repo_value, stored};

/// A statement and its parameters.
pub(crate) struct Selection {
    /// The statement.
    pub(crate) sql: String,
    /// The values of its parameters, in order.
    pub(crate) values: Vec<Value>,
}

/// Returns the statement that lists the records matching `query`, newest first.
pub(crate) fn select(query: &Query) -> Selection {
    let mut values = Vec::new();
    let mut conditions: Vec<String> = Vec::new();
    let mut bind = |value: Value| {
        values.push(value);
        format!("?{}", values.len())
    };
    if let Some(statuses) = &query.statuses {
        let names: Vec<_> =
            statuses.iter().map(|status| bind(Value::Text(status.as_str().to_owned()))).collect();
        conditions.push(format!("status IN ({})", names.join(", ")));
        if statuses.iter().copied().all(|status| !Status::is_finished(status)) {
            // Redundant, but the condition of the small index over unfinished records.
            conditions.push("finished = 0".to_owned());
        }
    }
    if let Some(ticket) = &query.ticket {
        conditions.push(format!("ticket = {}", bind(Value::Text(ticket.clone()))));
    }
    if let Some(name) = &query.name {
        conditions.push(format!("name = {}", bind(Value::Text(name.clone()))));
    }
    if let Some(prefix) = &query.id_prefix {
        // Ids are ASCII, so every id with this prefix sorts before the prefix followed by the highest
        // character.
        conditions.push(format!("id >= {}", bind(Value::Text(prefix.clone()))));
        conditions.push(format!("id < {}", bind(Value::Text(format!("{prefix}{}", char::MAX)))));
    }
    if let Some(repo) = &query.repo {
        conditions.push(format!("repo = {}", bind(repo_value(repo))));
    }
    if query.unsettled {
        conditions.push("finished = 0".to_owned());
    }
    if query.active_loop {
        // Without this text there is no active loop. With it, the parsed record decides.
        conditions.push("instr(document, '\"active\":true') > 0".to_owned());
    }
    if let Some(time) = query.finished_before {
        let time = bind(Value::Integer(time.as_nanoseconds()));
        conditions.push(format!("created_ns < {time} AND finished_ns < {time}"));
        let open: Vec<_> = Status::ALL.into_iter().filter(|status| !status.is_finished()).collect();
        let names: Vec<_> = open.iter().map(|status| bind(Value::Text(status.as_str().to_owned()))).collect();
        conditions.push(format!("status NOT IN ({})", names.join(", ")));
    }
    let mut sql = format!("SELECT {COLUMNS} FROM sessions");
    if !conditions.is_empty() {
        sql = format!("{sql} WHERE {}", conditions.join(" AND "));
    }
    sql += " ORDER BY created_ns DESC, id DESC";
    // Some records with the text do not match; the limit applies after they are parsed.
    if let Some(limit) = query.limit.filter(|_| !query.active_loop) {
        sql = format!("{sql} LIMIT {}", bind(Value::Integer(stored(limit as u64))));
    }
    Selection { sql, values }
}

/// Returns whether the store's tally gives the number of records that match `query`.
pub(crate) fn is_counted(query: &Query) -> bool {
    let Query { statuses: _, ticket, name, id_prefix, repo, unsettled, active_loop, finished_before, limit } =
        query;
    ticket.is_none()
        && name.is_none()
        && id_prefix.is_none()
        && repo.is_none()
        && !unsettled
        && !active_loop
        && finished_before.is_none()
        && limit.is_none()
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::schema;

    fn plan(query: &Query) -> String {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::create(&mut connection, schema::newest()).unwrap();
        let Selection { sql, values } = select(query);
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let rows = statement.query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>(3));
        rows.unwrap().collect::<Result<Vec<_>, _>>().unwrap().join("; ")
    }

    #[test]
    fn frequent_queries_use_an_index() {
        assert_eq!(plan(&Query::active()), "SCAN sessions USING INDEX sessions_unfinished");
        assert_eq!(plan(&Query::all().limit(10)), "SCAN sessions USING INDEX sessions_newest");
        assert!(
            plan(&Query::all().named("n")).starts_with("SEARCH sessions USING INDEX sessions_name (name=?)")
        );
        assert_eq!(plan(&Query::unsettled()), "SCAN sessions USING INDEX sessions_unfinished");
        let before = "2026-01-02T03:04:05Z".parse().unwrap();
        assert!(
            plan(&Query::all().finished_before(before))
                .starts_with("SEARCH sessions USING INDEX sessions_newest (created_ns<?)")
        );
        assert!(
            plan(&Query::all().id_prefix("abcd")).contains("sqlite_autoindex_sessions_1 (id>? AND id<?)")
        );
    }
}
