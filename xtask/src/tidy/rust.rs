//! The rules for Rust files.

use super::SourceFile;
use super::code::{lines_with_word, without_prose};

/// A longer file has more than one purpose.
const MAX_LINES: usize = 600;

/// Words that promise later work. They are joined here, so that this file does not contain them.
const PROMISES: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Macros that print.
const PRINTING: [&str; 5] = ["println", "eprintln", "print", "eprint", "dbg"];

/// The crates of the project's own programs, which are not part of the product.
const OWN: [&str; 3] = ["crates/bench/", "crates/faults/", "crates/workspace/"];

/// Where printing is the purpose: the program, the project's own commands, the test kit.
const PRINTERS: [&str; 3] = ["crates/cli/", "xtask/", "crates/testkit/"];

/// The prefixes of the names of backend crates.
const BACKENDS: [&str; 3] = ["sexton_store_", "sexton_proc_", "sexton_worktree_"];

/// The only file that names them.
const LINKER: &str = "crates/cli/src/backends.rs";

/// The crates that call the kernel where no safe wrapper exists.
const UNSAFE: [&str; 2] = ["crates/supervise/", "crates/proc-linux/"];

/// Functions that read any type of file: a FIFO blocks, a device never ends.
const PLAIN_READS: [&str; 2] = ["fs::read", "fs::read_to_string"];

/// Where only files of the system, or files that the program has just created, are read.
const PLAIN_READERS: [&str; 8] = [
    "crates/proc-linux/",
    "crates/proc-portable/",
    "crates/supervise/src/platform/",
    "crates/supervise/src/host.rs",
    "crates/cli/src/state_findings.rs",
    "crates/cli/src/commands/demo.rs",
    "crates/worktree-git/src/mounts.rs",
    "crates/test-harness/",
];

/// Returns the findings of every rule.
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
        forbid_plain_reads(file, &code),
    ]
    .concat()
}

/// Returns whether the file is part of a crate's library or program, not of its tests or its build.
fn is_product(file: &SourceFile) -> bool {
    let is_own = OWN.iter().any(|own| file.path.starts_with(own));
    file.path.starts_with("crates/") && file.path.contains("/src/") && !is_own
}

fn require_module_docs(file: &SourceFile) -> Vec<String> {
    if file.text.starts_with("//! ") {
        Vec::new()
    } else {
        vec![format!("{}:1: does not start with `//!`: describe the purpose of the file", file.path)]
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
        // Only inside an attribute; elsewhere it is an ordinary name.
        code.lines().nth(line - 1).is_some_and(|text| text.trim_start().starts_with("#["))
    });
    findings.extend(ignored.map(|line| format!("{}:{line}: an ignored test", file.path)));
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
    find(file, code, &["unsafe"], "unsafe code belongs in supervise or proc-linux")
}

fn forbid_plain_reads(file: &SourceFile, code: &str) -> Vec<String> {
    let is_test = file.path.ends_with("/tests.rs") || file.path.starts_with("crates/testkit/");
    if !is_product(file) || is_test || PLAIN_READERS.iter().any(|place| file.path.starts_with(place)) {
        return Vec::new();
    }
    let product = code.split("#[cfg(test)]").next().unwrap_or(code);
    find(file, product, &PLAIN_READS, "the file may be of any type: use sexton_durable::read_regular")
}

fn find(file: &SourceFile, text: &str, words: &[&str], what: &str) -> Vec<String> {
    let lines = words.iter().flat_map(|word| lines_with_word(text, word).map(move |line| (line, word)));
    lines.map(|(line, word)| format!("{}:{line}: `{word}`: {what}", file.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the findings for `text`, with module docs put before it, in a file at `path`.
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
    fn a_file_starts_with_module_docs() {
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
            assert_found("crates/a/src/lib.rs", attribute, "an ignored test");
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
            for own in OWN {
                assert_clean(&format!("{own}src/a.rs"), &call);
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
    fn a_read_of_any_file_type_is_found() {
        for call in ["fn a() { fs::read(b) }", "fn a() { std::fs::read_to_string(b) }"] {
            assert_found("crates/a/src/lib.rs", call, "read_regular");
            assert_clean("crates/a/tests/a.rs", call);
            assert_clean("crates/proc-linux/src/lib.rs", call);
            assert_clean("crates/a/src/lib.rs", &format!("#[cfg(test)]\nmod tests {{ {call} }}"));
        }
        assert_clean("crates/a/src/lib.rs", "fn a() { fs::read_dir(b); fs::read_link(c) }");
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
