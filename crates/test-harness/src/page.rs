//! Finds the commands in the Markdown of a documentation page, and runs them in a shell.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// A command of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Line number, from 1.
    pub line: usize,
    /// The command, including its comment.
    pub text: String,
    /// The expected exit code: `# exits N` in the comment, else 0.
    pub exit: i32,
}

/// Returns the commands in the `sh` blocks of `page`, in order. A line that ends with a backslash continues on the
/// next line, and a line that starts a here-document continues to its end.
pub fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        if line.trim_end() != "```sh" {
            continue;
        }
        while let Some((number, line)) = lines.next() {
            if line.starts_with("```") {
                break;
            }
            let mut text = line.to_owned();
            while text.ends_with('\\') {
                let Some((_, more)) = lines.next() else { break };
                text = format!("{text}\n{more}");
            }
            if let Some(end) = here_document(line) {
                for (_, more) in lines.by_ref() {
                    text = format!("{text}\n{more}");
                    if more == end {
                        break;
                    }
                }
            }
            if !text.trim().is_empty() && !text.trim_start().starts_with('#') {
                let exit = expected_exit(&text);
                steps.push(Step { line: number + 1, text, exit });
            }
        }
    }
    steps
}

fn here_document(line: &str) -> Option<String> {
    let (_, after) = line.split_once("<<")?;
    let word: String =
        after.trim_start_matches(['-', '\'', '"', ' ']).chars().take_while(|c| c.is_alphanumeric()).collect();
    Some(word).filter(|word| !word.is_empty())
}

fn expected_exit(text: &str) -> i32 {
    let comment = text.rsplit_once(" # ").map_or("", |(_, comment)| comment);
    let expected = comment.split_once("exits ").map_or("", |(_, rest)| rest);
    let digits: String = expected.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// The environment in which the commands of a page are run.
pub struct Reader<'a> {
    /// A directory for the script and its output.
    pub folder: &'a Path,
    /// The time limit for the page.
    pub limit: Duration,
    /// Sets the environment and the directory of the shell.
    pub prepare: &'a dyn Fn(&mut Command),
}

impl Reader<'_> {
    /// Runs every step in one shell, and returns the steps that did not exit as the page states.
    pub fn try_out(&self, steps: &[Step]) -> Vec<String> {
        let (script, codes) = (self.folder.join("page.sh"), self.folder.join("page.codes"));
        let output = self.folder.join("page.output");
        fs::write(&script, script_of(steps, &codes)).unwrap();
        fs::write(&codes, "").unwrap();
        let log = fs::File::create(&output).unwrap();
        let mut shell = Command::new("bash");
        (self.prepare)(&mut shell);
        shell.arg("--norc").arg(&script).stdin(Stdio::null());
        shell.stdout(log.try_clone().unwrap()).stderr(log);
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        let in_time = run_within(shell, self.limit);
        let codes = fs::read_to_string(&codes).unwrap();
        let codes: Vec<i32> = codes.lines().filter_map(|code| code.parse().ok()).collect();
        let printed = fs::read_to_string(&output).unwrap_or_default();
        let mut findings = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let Step { line, text, exit } = step;
            let finding = match codes.get(number) {
                Some(code) if code == exit => continue,
                Some(code) => format!("line {line}: `{text}` exits {code}, and the page says {exit}"),
                None if in_time => format!("line {line}: `{text}` ended the shell"),
                None => format!("line {line}: `{text}` does not end"),
            };
            findings.push(format!("{finding}:\n{}", part_of(&printed, number)));
            if codes.get(number).is_none() {
                break;
            }
        }
        findings
    }
}

const RULER: &str = "-- step";

fn script_of(steps: &[Step], codes: &Path) -> String {
    // Background jobs of the page end with the shell.
    let mut script =
        format!("trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\nexec 9>>'{}'\n", codes.display());
    for (number, step) in steps.iter().enumerate() {
        script.push_str(&format!("echo '{RULER} {number}'\n{}\necho $? >&9\n", step.text));
    }
    script
}

fn part_of(printed: &str, number: usize) -> &str {
    let from = printed.split_once(&format!("{RULER} {number}\n")).map_or("", |(_, rest)| rest);
    from.split_once(&format!("{RULER} {}\n", number + 1)).map_or(from, |(part, _)| part)
}

/// Runs the shell, and kills its process group at the time limit. Returns whether it exited in time.
fn run_within(mut shell: Command, limit: Duration) -> bool {
    let mut child = shell.spawn().unwrap();
    let begun = Instant::now();
    loop {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        if begun.elapsed() > limit {
            let group = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
            let _ = kill_process_group(group, Signal::KILL);
            child.wait().unwrap();
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// Returns every Markdown file below `folder`, sorted by path.
pub fn pages_below(folder: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}
