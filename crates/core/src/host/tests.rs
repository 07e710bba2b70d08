//! Tests of every row of the decision table of hosts.

use super::*;

const ID: &str = "0a1b";
const INITIAL: u64 = 4_026_531_836;

fn here() -> Incarnation {
    Incarnation {
        host: named(Some(ID), "m", "h"),
        boot_id: Some("b".to_owned()),
        pid_namespace: Some(INITIAL),
    }
}

fn named(id: Option<&str>, machine_id: &str, hostname: &str) -> Host {
    Host::new(machine_id, hostname).with_id(id.map(str::to_owned))
}

/// The table of decision 0048: every combination of what a record can contain.
#[test]
fn i12_only_the_same_host_judges_a_session() {
    use Place::{Elsewhere, Here, Rebooted};
    let (same_id, other_id) = (Some(ID), Some("ffff"));
    // (id, machine id, hostname), the case, and the place for: same boot and pid namespace, same boot in
    // another pid namespace, another boot, unknown boot.
    let table = [
        ((same_id, "m", "h"), "unchanged", [Here, Here, Rebooted, Here]),
        ((same_id, "m", "x"), "renamed", [Here, Elsewhere, Elsewhere, Elsewhere]),
        ((same_id, "x", "h"), "state directory shared or copied", [Here, Elsewhere, Elsewhere, Elsewhere]),
        ((same_id, "x", "x"), "state directory shared or copied", [Here, Elsewhere, Elsewhere, Elsewhere]),
        ((other_id, "m", "h"), "clone, or another state directory", [Here, Elsewhere, Elsewhere, Elsewhere]),
        ((other_id, "m", "x"), "clone that was renamed", [Here, Elsewhere, Elsewhere, Elsewhere]),
        ((other_id, "x", "h"), "another machine of that name", [Here, Elsewhere, Elsewhere, Elsewhere]),
        ((other_id, "x", "x"), "another machine", [Here, Elsewhere, Elsewhere, Elsewhere]),
        ((None, "m", "h"), "record of an earlier release", [Here, Here, Rebooted, Here]),
        ((None, "m", "x"), "earlier release, renamed", [Here, Elsewhere, Elsewhere, Elsewhere]),
        ((None, "x", "h"), "earlier release, another machine", [Here, Elsewhere, Elsewhere, Elsewhere]),
        ((None, "x", "x"), "earlier release, another machine", [Here, Elsewhere, Elsewhere, Elsewhere]),
        ((None, "", ""), "store that records no host", [Here, Here, Rebooted, Here]),
    ];
    for ((id, machine_id, hostname), what, expected) in table {
        let incarnations = [
            (Some("b"), Some(INITIAL)),
            (Some("b"), Some(INITIAL + 7)),
            (Some("c"), Some(INITIAL)),
            (None, None),
        ];
        for ((boot_id, pid_namespace), expected) in incarnations.into_iter().zip(expected) {
            let host = named(id, machine_id, hostname);
            let recorded = Incarnation { host, boot_id: boot_id.map(str::to_owned), pid_namespace };
            assert_eq!(recorded.seen_from(&here()), expected, "{what}: {recorded:?}");
        }
    }
}

#[test]
fn i12_record_with_id_is_elsewhere_unless_same_boot_if_this_host_has_no_id() {
    let here = Incarnation { host: Host::new("m", "h"), ..here() };
    let recorded = self::here();
    assert_eq!(recorded.seen_from(&here), Place::Here);
    let earlier = Incarnation { boot_id: Some("c".to_owned()), ..recorded };
    assert_eq!(earlier.seen_from(&here), Place::Elsewhere);
}

#[test]
fn boot_is_taken_from_recorded_processes() {
    let mut session =
        Session::new("abcd".parse().unwrap(), here().host, "2026-01-02T03:04:05Z".parse().unwrap());
    assert_eq!(Incarnation::of(&session), Incarnation { boot_id: None, pid_namespace: None, ..here() });
    let boot_id = Some("c".to_owned());
    let identity = ProcessIdentity { boot_id, pid_namespace: Some(1), ..ProcessIdentity::of_pid(7) };
    session.process = Some(ProcessIdentity::of_pid(8));
    session.supervisor = Some(identity);
    assert_eq!(session.place(&here()), Place::Rebooted);
}

#[test]
fn unknown_host_fields_are_kept_and_ignored_in_comparison() {
    let text = r#"{"machine_id":"m","hostname":"h","zone":{"rack":7}}"#;
    let host: Host = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&host).unwrap(), text);
    let recorded = Incarnation { host, ..here() };
    assert_eq!(recorded.seen_from(&here()), Place::Here);
}

#[test]
fn host_with_id_round_trips() {
    let text = r#"{"id":"0a1b","machine_id":"m","hostname":"h"}"#;
    let host: Host = serde_json::from_str(text).unwrap();
    assert_eq!(host, here().host);
    assert_eq!(serde_json::to_string(&host).unwrap(), text);
}
