//! Commands as text, for messages.

use std::ffi::OsStr;
use std::process::Command;

/// Returns a command as a user would type it in the workspace.
pub fn shown(command: &Command) -> String {
    let program = match command.get_program() {
        program if program == env!("CARGO") => "cargo".to_owned(),
        program => quoted(program),
    };
    let settings = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    settings
        .map(|(name, value)| format!("{}={}", name.to_string_lossy(), quoted(value)))
        .chain([program])
        .chain(command.get_args().map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_typed() {
        let mut command = Command::new(env!("CARGO"));
        command.args(["doc", "--no-deps", "it's"]).env("RUSTDOCFLAGS", "-D warnings").env_remove("HOME");
        assert_eq!(shown(&command), r"RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s'");
    }
}
