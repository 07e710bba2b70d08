//! Commands whose arguments are code or another command, so that the program's name does not say what is run.
//!
//! The list covers what agents commonly use and is not a security boundary: `make`, a test runner or a script of the
//! repository can run anything too. The boundary is `mcp.allow`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// How a program takes code in its arguments.
enum Inline {
    /// A short option, alone or in a cluster: `-c`, `-xc`.
    Letters(&'static str),
    /// A short option or a long option.
    Options(&'static str, &'static [&'static str]),
    /// A subcommand: `deno eval`.
    Word(&'static str),
    /// Always, unless this option is given: `awk -f`.
    Unless(&'static str),
}

const SHELL: Inline = Inline::Options("c", &["--command", "--init-command"]);

/// Programs that run code from their arguments, without version suffixes.
const INTERPRETERS: [(&str, Inline); 33] = [
    ("sh", SHELL),
    ("bash", SHELL),
    ("rbash", SHELL),
    ("dash", SHELL),
    ("ash", SHELL),
    ("zsh", SHELL),
    ("ksh", SHELL),
    ("mksh", SHELL),
    ("csh", SHELL),
    ("tcsh", SHELL),
    ("fish", Inline::Options("cC", &["--command", "--init-command"])),
    ("nu", Inline::Options("ce", &["--commands", "--execute"])),
    ("elvish", SHELL),
    ("pwsh", Inline::Options("cCeE", &["-Command", "-EncodedCommand"])),
    ("python", Inline::Letters("c")),
    ("pypy", Inline::Letters("c")),
    ("ipython", Inline::Letters("c")),
    ("perl", Inline::Letters("eE")),
    ("ruby", Inline::Letters("e")),
    ("node", Inline::Options("ep", &["--eval", "--print"])),
    ("nodejs", Inline::Options("ep", &["--eval", "--print"])),
    ("bun", Inline::Options("ep", &["--eval", "--print"])),
    ("deno", Inline::Word("eval")),
    ("php", Inline::Options("rBRE", &["--run", "--process-begin", "--process-code", "--process-end"])),
    ("lua", Inline::Letters("e")),
    ("luajit", Inline::Letters("e")),
    ("R", Inline::Letters("e")),
    ("Rscript", Inline::Letters("e")),
    ("osascript", Inline::Letters("e")),
    ("awk", Inline::Unless("f")),
    ("gawk", Inline::Unless("f")),
    ("mawk", Inline::Unless("f")),
    ("nawk", Inline::Unless("f")),
];

/// Programs whose arguments are another command.
const LAUNCHERS: [&str; 36] = [
    "busybox",
    "chroot",
    "chrt",
    "command",
    "doas",
    "env",
    "eval",
    "exec",
    "expect",
    "flock",
    "gdb",
    "ionice",
    "ltrace",
    "nice",
    "nohup",
    "nsenter",
    "parallel",
    "pkexec",
    "runuser",
    "script",
    "setpriv",
    "setsid",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "toybox",
    "unbuffer",
    "unshare",
    "watch",
    "xargs",
];

/// Options of `find` that run a command.
const FIND_ACTIONS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

/// Returns a description of how the command runs code or another command from its arguments, if it does.
pub(super) fn find_indirection(command: &[OsString]) -> Option<String> {
    let (program, arguments) = command.split_first()?;
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    if LAUNCHERS.contains(&plain) {
        return Some(format!("`{name}` runs another command"));
    }
    if plain == "find" && arguments.iter().any(|word| FIND_ACTIONS.iter().any(|action| word == action)) {
        return Some("`find` runs a command here".to_owned());
    }
    let (_, inline) = INTERPRETERS.iter().find(|(known, _)| *known == plain)?;
    let inside = match inline {
        Inline::Letters(letters) => arguments.iter().any(|word| has_letter(word, letters)),
        Inline::Options(letters, long) => {
            arguments.iter().any(|word| has_letter(word, letters) || is_option(word, long))
        }
        Inline::Word(wanted) => arguments.iter().any(|word| word == wanted),
        Inline::Unless(letters) => {
            !arguments.is_empty() && !arguments.iter().any(|word| has_letter(word, letters))
        }
    };
    inside.then(|| format!("`{name}` runs code from its arguments here"))
}

/// Returns whether `word` is a cluster of short options that contains one of `letters`. Arguments of a script are
/// checked like options: a command that is refused wrongly can be allowed by name.
fn has_letter(word: &OsStr, letters: &str) -> bool {
    let word = word.to_string_lossy();
    let Some(cluster) = word.strip_prefix('-').filter(|cluster| !cluster.starts_with('-')) else {
        return false;
    };
    cluster.chars().any(|letter| letters.contains(letter))
}

fn is_option(word: &OsStr, long: &[&str]) -> bool {
    let word = word.to_string_lossy();
    let name = word.split('=').next().unwrap_or_default();
    long.contains(&name)
}
