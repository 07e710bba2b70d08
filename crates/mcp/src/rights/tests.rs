//! Tests of which commands are allowed.

use super::*;

fn rights(allow: &[&str], deny: &[&str]) -> Rights {
    let parse =
        |texts: &[&str]| texts.iter().map(|text| Pattern::parse("mcp.allow", text).unwrap()).collect();
    Rights { grants: Grants { run: true, ..Grants::default() }, allow: parse(allow), deny: parse(deny) }
}

fn runs(rights: &Rights, command: &[&str]) -> bool {
    runs_in(rights, command, Path::new("/work"))
}

fn runs_in(rights: &Rights, command: &[&str], directory: &Path) -> bool {
    let command: Vec<_> = command.iter().map(OsString::from).collect();
    rights.require_run(&command, directory).is_ok()
}

#[test]
fn server_without_grants_only_reads() {
    let none = Rights { grants: Grants::default(), ..rights(&["*", "sh *"], &[]) };
    assert!(!runs(&none, &["true"]));
    assert!(none.require_stop().is_err() && none.require_recover().is_err());
}

#[test]
fn without_patterns_every_direct_command_is_allowed() {
    let any = rights(&[], &[]);
    for command in
        [&["cargo", "test"][..], &["./run.sh", "-c", "x"], &["sh", "script.sh"], &["python3", "-m", "x"]]
    {
        assert!(runs(&any, command), "{command:?}");
    }
}

#[test]
fn code_and_commands_in_arguments_must_be_allowed_by_name() {
    let commands: [&[&str]; 26] = [
        &["sh", "-c", "x"],
        &["/bin/sh", "-c", "x"],
        &["bash", "-lc", "x"],
        &["bash", "-o", "pipefail", "-c", "x"],
        &["dash", "-ec", "x"],
        &["zsh", "-c", "x"],
        &["fish", "--command", "x"],
        &["fish", "--command=x"],
        &["fish", "-C", "x"],
        &["python", "-c", "x"],
        &["python3", "-c", "x"],
        &["/usr/bin/python3.11", "-Ic", "x"],
        &["perl", "-e", "x"],
        &["perl", "-ne", "x"],
        &["perl", "-Mstrict", "-E", "x"],
        &["node", "-e", "x"],
        &["node", "--eval=x"],
        &["node", "-p", "x"],
        &["deno", "eval", "x"],
        &["awk", "BEGIN{system(\"x\")}"],
        &["env", "FOO=1", "x"],
        &["/usr/bin/env", "x"],
        &["xargs", "rm"],
        &["sudo", "x"],
        &["timeout", "5", "sh"],
        &["find", ".", "-exec", "x", ";"],
    ];
    for command in commands {
        assert!(!runs(&rights(&[], &[]), command), "{command:?} with no patterns");
        assert!(!runs(&rights(&["*"], &[]), command), "{command:?} by `*`");
        let name = command[0].to_owned();
        assert!(runs(&rights(&[&format!("{name} *")], &[]), command), "{command:?} by name");
    }
}

#[test]
fn pattern_matches_words_not_a_text_prefix() {
    let cargo = rights(&["cargo *", "git log *", "make check", "npm run test:*"], &[]);
    for command in [
        &["cargo"][..],
        &["cargo", "test", "--all"],
        &["git", "log"],
        &["git", "log", "-1"],
        &["make", "check"],
        &["npm", "run", "test:unit"],
    ] {
        assert!(runs(&cargo, command), "{command:?}");
    }
    for command in [
        &["cargo-evil"][..],
        &["cargo test"],
        &["/tmp/cargo", "test"],
        &["./cargo", "test"],
        &["git", "push"],
        &["git", "-c", "x", "log"],
        &["make", "check", "deploy"],
        &["make"],
        &["npm", "run", "test:unit", "more"],
        &["npm", "run", "deploy"],
    ] {
        assert!(!runs(&cargo, command), "{command:?}");
    }
}

#[test]
fn deny_overrides_allow_in_any_directory() {
    let guarded = rights(&["*", "git *", "rm *"], &["rm *", "git push *", "*curl* *"]);
    for command in [
        &["rm", "-rf", "x"][..],
        &["rm"],
        &["/bin/rm", "x"],
        &["../rm", "x"],
        &["git", "push", "--force"],
        &["/usr/bin/curl", "x"],
    ] {
        assert!(!runs(&guarded, command), "{command:?}");
    }
    assert!(runs(&guarded, &["git", "status"]));
    assert!(runs(&guarded, &["rmdir", "x"]));
}

#[test]
fn path_in_pattern_matches_only_that_path() {
    let here = std::env::current_dir().unwrap();
    let placed = rights(&["./run.sh *", "/opt/tools/* *"], &[]);
    assert!(runs_in(&placed, &["./run.sh", "x"], &here));
    assert!(runs_in(&placed, &[here.join("run.sh").to_str().unwrap()], Path::new("/elsewhere")));
    assert!(!runs_in(&placed, &["./run.sh"], Path::new("/elsewhere")));
    assert!(!runs_in(&placed, &["run.sh"], &here));
    assert!(!runs_in(&placed, &["x/../run.sh"], &here));
    assert!(runs_in(&placed, &["/opt/tools/lint", "x"], Path::new("/")));
    assert!(!runs_in(&placed, &["/opt/tools/../../bin/sh"], Path::new("/")));
}

#[test]
fn refusal_names_the_rule_and_the_allowed_patterns() {
    let ruled = rights(&["cargo *"], &["cargo publish *"]);
    let refusal = |words: &[&str]| {
        let command: Vec<_> = words.iter().map(OsString::from).collect();
        ruled.require_run(&command, Path::new("/")).unwrap_err()
    };
    assert!(refusal(&["cargo", "publish"]).error.contains("`cargo publish *`"));
    assert!(refusal(&["make"]).suggestion.contains("`cargo *`"));
    assert!(refusal(&["sh", "-c", "x"]).error.contains("by name"));
}

#[test]
fn invalid_pattern_error_names_the_setting() {
    for text in ["", "  ", "cargo | sh", "'cargo"] {
        let error = Pattern::parse("mcp.deny", text).unwrap_err().to_string();
        assert!(error.starts_with("`mcp.deny` has"), "{error}");
    }
}
