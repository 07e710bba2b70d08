//! The commands of a documentation page: found in its Markdown, and run as its reader would run them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// A command of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Where it stands, from 1.
    pub line: usize,
    /// What is typed, remark included.
    pub text: String,
    /// The exit code that the page promises: `# exits N` in the remark, else 0.
    pub exit: i32,
}

/// The commands in the `sh` blocks of `page`, in their order. A line that ends with a backslash goes on in
/// the next one, and one that begins a here-document goes on to its end.
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
                let exit = promised_exit(&text);
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

fn promised_exit(text: &str) -> i32 {
    let remark = text.rsplit_once(" # ").map_or("", |(_, remark)| remark);
    let promised = remark.split_once("exits ").map_or("", |(_, rest)| rest);
    let digits: String = promised.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// Where a page is tried out.
pub struct Reader<'a> {
    /// A directory for its own files.
    pub folder: &'a Path,
    /// How long the page may take.
    pub limit: Duration,
    /// Puts the shell where it belongs.
    pub prepare: &'a dyn Fn(&mut Command),
}

impl Reader<'_> {
    /// Types every step into one shell, and says which did not end as the page promises.
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
        let said = fs::read_to_string(&output).unwrap_or_default();
        let mut findings = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let Step { line, text, exit } = step;
            let finding = match codes.get(number) {
                Some(code) if code == exit => continue,
                Some(code) => format!("line {line}: `{text}` exits {code}, and the page says {exit}"),
                None if in_time => format!("line {line}: `{text}` ended the shell"),
                None => format!("line {line}: `{text}` does not end"),
            };
            findings.push(format!("{finding}:\n{}", part_of(&said, number)));
            if codes.get(number).is_none() {
                break;
            }
        }
        findings
    }
}

const RULER: &str = "-- step";

fn script_of(steps: &[Step], codes: &Path) -> String {
    // What a page puts into the background ends with it.
    let mut script =
        format!("trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\nexec 9>>'{}'\n", codes.display());
    for (number, step) in steps.iter().enumerate() {
        script.push_str(&format!("echo '{RULER} {number}'\n{}\necho $? >&9\n", step.text));
    }
    script
}

fn part_of(said: &str, number: usize) -> &str {
    let from = said.split_once(&format!("{RULER} {number}\n")).map_or("", |(_, rest)| rest);
    from.split_once(&format!("{RULER} {}\n", number + 1)).map_or(from, |(part, _)| part)
}

/// Runs the shell; ends it with everything in its process group when the time is up. Says whether it was not.
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

/// Every Markdown file below `folder`, in the order of their paths.
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
