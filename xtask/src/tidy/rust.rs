//! The rules for Rust files.

use super::SourceFile;
use super::code::{lines_with_word, without_prose};

/// A file longer than this has more than one reason to exist.
const MAX_LINES: usize = 600;

/// Words that promise later work. Put together here, so that this file does not contain them.
const PROMISES: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// What prints.
const PRINTING: [&str; 5] = ["println", "eprintln", "print", "eprint", "dbg"];

/// The fault campaign: a program of the project's own, and no part of the product.
const CAMPAIGN: &str = "crates/faults/";

/// Where printing is the purpose: the program, the project's own commands, the test harness.
const PRINTERS: [&str; 3] = ["crates/cli/", "xtask/", "crates/testkit/"];

/// How the names of backend crates begin.
const BACKENDS: [&str; 3] = ["sexton_store_", "sexton_proc_", "sexton_worktree_"];

/// The one file that names them.
const LINKER: &str = "crates/cli/src/backends.rs";

/// The crates that speak to the kernel where no safe wrapper exists.
const UNSAFE: [&str; 2] = ["crates/supervise/", "crates/proc-linux/"];

/// The findings of every rule.
pub(super) fn check(file: &SourceFile) -> Vec<String> {
    let code = without_prose(&file.text);
    [
        require_module_docs(file),
        require_short(file),
        forbid_promises(file),
        forbid_unfinished(file, &code),
        forbid_printing(file, &code),
        forbid_backends(file, &code),
        forbid_unsafe(file, &code),
    ]
    .concat()
}

/// Whether the file is part of a crate's library or program, not of its tests or its build.
fn is_product(file: &SourceFile) -> bool {
    file.path.starts_with("crates/") && file.path.contains("/src/") && !file.path.starts_with(CAMPAIGN)
}

fn require_module_docs(file: &SourceFile) -> Vec<String> {
    if file.text.starts_with("//! ") {
        Vec::new()
    } else {
        vec![format!("{}:1: does not start with `//!`: say what the file is for", file.path)]
    }
}

fn require_short(file: &SourceFile) -> Vec<String> {
    match file.text.lines().count() {
        0..=MAX_LINES => Vec::new(),
        lines => vec![format!("{}:{lines}: more than {MAX_LINES} lines: split it", file.path)],
    }
}

fn forbid_promises(file: &SourceFile) -> Vec<String> {
    find(file, &file.text, &PROMISES, "a promise of later work: do it now, or drop it")
}

fn forbid_unfinished(file: &SourceFile, code: &str) -> Vec<String> {
    let mut findings = find(file, code, &["todo!", "unimplemented!"], "unfinished code");
    let ignored = lines_with_word(code, "ignore").filter(|line| {
        // Inside an attribute only; elsewhere it is an ordinary name.
        code.lines().nth(line - 1).is_some_and(|text| text.trim_start().starts_with("#["))
    });
    findings.extend(ignored.map(|line| format!("{}:{line}: a test that is never run", file.path)));
    findings
}

fn forbid_printing(file: &SourceFile, code: &str) -> Vec<String> {
    if !is_product(file) || PRINTERS.iter().any(|printer| file.path.starts_with(printer)) {
        return Vec::new();
    }
    let calls: Vec<String> = PRINTING.iter().map(|name| format!("{name}!")).collect();
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    find(file, code, &calls, "only the command line prints")
}

fn forbid_backends(file: &SourceFile, code: &str) -> Vec<String> {
    if !is_product(file) || file.path == LINKER {
        return Vec::new();
    }
    let named = code.lines().enumerate().filter(|(_, line)| BACKENDS.iter().any(|name| line.contains(name)));
    named.map(|(index, _)| format!("{}:{}: only {LINKER} names a backend", file.path, index + 1)).collect()
}

fn forbid_unsafe(file: &SourceFile, code: &str) -> Vec<String> {
    if UNSAFE.iter().any(|place| file.path.starts_with(place)) {
        return Vec::new();
    }
    find(file, code, &["unsafe"], "unsafe code belongs into supervise or proc-linux")
}

fn find(file: &SourceFile, text: &str, words: &[&str], what: &str) -> Vec<String> {
    let lines = words.iter().flat_map(|word| lines_with_word(text, word).map(move |line| (line, word)));
    lines.map(|(line, word)| format!("{}:{line}: `{word}`: {what}", file.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings for `text`, with module docs put before it, in a file at `path`.
    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&SourceFile { path: path.into(), text: format!("//! What for.\n{text}") })
    }

    #[track_caller]
    fn assert_found(path: &str, text: &str, part: &str) {
        let found = findings(path, text);
        assert!(found.len() == 1 && found[0].contains(part), "{path} with {text:?}: {found:?}");
    }

    #[track_caller]
    fn assert_clean(path: &str, text: &str) {
        assert_eq!(findings(path, text), Vec::<String>::new(), "{path} with {text:?}");
    }

    #[test]
    fn a_file_starts_with_what_it_is_for() {
        for text in ["", "// a", "use std::fs;\n//! late", "//!"] {
            let file = SourceFile { path: "crates/a/build.rs".into(), text: text.into() };
            assert_eq!(check(&file).len(), 1, "{text:?}");
        }
    }

    #[test]
    fn a_long_file_is_found() {
        assert_clean("crates/a/src/lib.rs", &"\n".repeat(MAX_LINES - 1));
        assert_found("crates/a/src/lib.rs", &"\n".repeat(MAX_LINES), "lib.rs:601: more than 600 lines");
    }

    #[test]
    fn a_promise_is_found_in_a_comment_too() {
        for (start, end) in [("TO", "DO"), ("FIX", "ME")] {
            assert_found("crates/a/src/lib.rs", &format!("// {start}{end}: later"), "lib.rs:2: ");
        }
    }

    #[test]
    fn unfinished_code_is_found() {
        assert_found("crates/a/tests/a.rs", "fn a() { todo!() }", "unfinished");
        assert_found("crates/a/src/lib.rs", "fn a() { unimplemented!() }", "unfinished");
    }

    #[test]
    fn an_ignored_test_is_found() {
        for attribute in ["#[ignore]", "#[ignore = \"slow\"]", "    #[cfg_attr(unix, ignore)]"] {
            assert_found("crates/a/src/lib.rs", attribute, "never run");
        }
        assert_clean("crates/a/src/lib.rs", "let ignore = ignored(a[0]);");
    }

    #[test]
    fn a_library_that_prints_is_found() {
        for name in ["println", "eprintln", "print", "eprint", "dbg"] {
            let call = format!("fn a() {{ {name}!(\"\") }}");
            assert_found("crates/a/src/deep/b.rs", &call, "only the command line prints");
            for path in ["crates/cli/src/a.rs", "xtask/src/a.rs", "crates/a/tests/a.rs", "crates/a/build.rs"]
            {
                assert_clean(path, &call);
            }
        }
        assert_clean("crates/a/src/lib.rs", "/// println!(\"in an example\")\nfn print() {}");
    }

    #[test]
    fn a_backend_named_elsewhere_is_found() {
        for name in ["sexton_store_json", "sexton_proc_linux", "sexton_worktree_git"] {
            let line = format!("use {name} as _;");
            assert_found("crates/cli/src/main.rs", &line, "only crates/cli/src/backends.rs");
            assert_clean("crates/cli/src/backends.rs", &line);
            assert_clean("crates/store-json/tests/conformance.rs", &line);
        }
        assert_clean("crates/core/src/lib.rs", "// sexton_store_json is one of them");
    }

    #[test]
    fn unsafe_code_elsewhere_is_found() {
        let block = "fn a() { unsafe { b() } }";
        assert_found("crates/core/src/lib.rs", block, "unsafe code belongs");
        assert_found("crates/cli/tests/a.rs", block, "unsafe code belongs");
        assert_clean("crates/supervise/src/gate.rs", block);
        assert_clean("crates/proc-linux/src/lib.rs", block);
        assert_clean("crates/core/src/lib.rs", "#![forbid(unsafe_code)] // unsafe");
    }
}
