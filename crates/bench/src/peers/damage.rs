//! What is still known when half of the state file is lost.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Bench;
use super::answer::{Answer, Figure, line, rank, single};
use super::chart::Chart;
use super::peer::Peer;
use super::sandbox::Sandbox;
use crate::Result;

const RECORDS: usize = 100;

/// The time limit for filling.
const LIMIT: Duration = Duration::from_secs(60);

/// How many characters of a message fit into a table.
const SPACE: usize = 110;

/// Words that indicate an error message.
const ALARMS: [&str; 7] = ["damage", "corrupt", "error", "fail", "invalid", "unexpected", "broken"];

/// What was observed.
struct Observation {
    name: &'static str,
    /// The names of the state files.
    files: Vec<String>,
    known: usize,
    repaired: Option<(&'static str, usize)>,
    /// Its message about the damage.
    message: Option<String>,
    /// Whether the remaining halves of the files are still on the disk.
    kept: bool,
}

pub(super) fn ask(bench: &Bench) -> Result<Answer> {
    let journal = bench.sexton.with_journal();
    let mut peers: Vec<&dyn Peer> = bench.peers.iter().map(|peer| &**peer).collect();
    peers.insert(1, &journal);
    let mut observations = Vec::new();
    for peer in peers {
        observations.push(play(peer).map_err(|error| format!("{}: {error}", peer.name()))?);
    }
    Ok(answer(&observations))
}

fn play(peer: &dyn Peer) -> Result<Observation> {
    let name = peer.name();
    let mut running_peer = peer.open(Sandbox::on_disk()?)?;
    let deadline = Instant::now() + LIMIT;
    running_peer.start_many(&["true"], RECORDS, deadline)?;
    if !running_peer.settle(RECORDS, deadline)? {
        return Err(format!("it knows {:?} of {RECORDS}", running_peer.known()?).into());
    }
    let files = running_peer.close()?;
    let mut left = Vec::new();
    for file in &files {
        let half = fs::metadata(file)?.len() / 2;
        OpenOptions::new().write(true).open(file)?.set_len(half)?;
        left.push(fs::read(file)?);
    }
    let Some(place) = files.first().and_then(|file| file.parent()) else {
        return Ok(Observation {
            name,
            files: Vec::new(),
            known: 0,
            repaired: None,
            message: None,
            kept: false,
        });
    };
    // A tool that cannot be started again is a result, too.
    let mut message = running_peer.come_back().unwrap_or_else(|error| error.to_string());
    let known = running_peer.known().map(|known| known.running + known.ended);
    if let Err(error) = &known {
        message.push_str(&error.to_string());
    }
    let kept = left.iter().all(|left| holds(place, left));
    let words = running_peer.repair()?;
    let repaired =
        words.map(|words| (words, running_peer.known().map_or(0, |known| known.running + known.ended)));
    let message = find_alarm(&message, &[&files[..], &[place.to_owned()]].concat());
    let shown = |file: &PathBuf| format!("`{}`", file.file_name().unwrap_or_default().to_string_lossy());
    let files = files.iter().map(shown).collect();
    Ok(Observation { name, files, known: known.unwrap_or(0), repaired, message, kept })
}

/// Returns whether a file in `directory`, or below it, begins with `content`.
fn holds(directory: &Path, content: &[u8]) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.into_iter().any(|path| {
        if path.is_dir() {
            return holds(&path, content);
        }
        path.is_file() && fs::read(path).is_ok_and(|found| found.starts_with(content))
    })
}

/// Returns the first line that reports an error, without colours, without this machine's paths, and
/// shortened.
fn find_alarm(message: &str, paths: &[PathBuf]) -> Option<String> {
    let line = message.lines().find(|line| {
        let line = line.to_lowercase();
        ALARMS.iter().any(|alarm| line.contains(alarm))
    })?;
    let mut text = String::new();
    let mut is_code = false;
    for character in line.chars() {
        match character {
            '\u{1b}' => is_code = true,
            'm' if is_code => is_code = false,
            _ if is_code => {}
            '|' | '`' | '<' | '>' => text.push(' '),
            other => text.push(other),
        }
    }
    for path in paths {
        text = text.replace(&*path.to_string_lossy(), "…");
    }
    let text = text.trim();
    let short: String = text.chars().take(SPACE).collect();
    Some(if short.len() < text.len() { format!("{short}…") } else { short })
}

fn answer(observations: &[Observation]) -> Answer {
    let mut lines = vec![line(["tool", "its files", "still known", "it says", "what was left of the files"])];
    let mut figures: Vec<(&str, Figure)> = Vec::new();
    for observation in observations {
        if observation.files.is_empty() {
            lines.push(line([observation.name, "has none: what it knows ends with its daemon", "", "", ""]));
            figures.push((observation.name, Err("has no state file".into())));
            continue;
        }
        let mut known = format!("{} of {RECORDS}", observation.known);
        if let Some((words, after)) = observation.repaired {
            known = format!("{known}; after {words} {after}");
        }
        let message =
            observation.message.as_deref().map_or("nothing".to_owned(), |message| format!("“{message}”"));
        let kept = if observation.kept { "is kept" } else { "**is gone**" };
        lines.push(line([observation.name, &observation.files.join(", "), &known, &message, kept]));
        figures.push((observation.name, Ok(observation.known as f64)));
    }
    let show = |count: f64| format!("{count:.0}");
    // The fewer are lost, the better.
    let lost: Vec<(&str, Figure)> = figures
        .iter()
        .map(|(name, known)| (*name, known.clone().map(|known| RECORDS as f64 - known)))
        .collect();
    Answer {
        slug: "damage",
        title: "When half of the state file is gone".into(),
        method: format!(
            "{RECORDS} finished commands, the tool ended in its own way (pm2 after `pm2 save`, twice), each of its files cut to \
             half of its length, the tool started again. Sexton is asked with both of its own stores, and its backups \
             are not used; pm2 falls back to the save before."
        ),
        lines,
        chart: Chart {
            title: "When half of the state file is gone".into(),
            note: format!("records of {RECORDS} that are still known, more is better"),
            series: Vec::new(),
            groups: single(&figures, show),
        },
        verdict: rank(&format!("Lost of {RECORDS}"), &lost, show),
        quote: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_found_below_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("kept")).unwrap();
        fs::write(directory.path().join("kept/copy"), "the first half").unwrap();
        assert!(holds(directory.path(), b"the first"));
        assert!(!holds(directory.path(), b"first"));
    }

    #[test]
    fn an_error_message_is_found_without_colours_and_paths() {
        let message = "all well\n\u{1b}[31m[PM2][ERROR]\u{1b}[39m Failed to read /tmp/x/dump.pm2 | 1\n";
        let alarm = find_alarm(message, &[PathBuf::from("/tmp/x/dump.pm2")]);
        assert_eq!(alarm.as_deref(), Some("[PM2][ERROR] Failed to read …   1"));
        assert_eq!(find_alarm("all well", &[]), None);
        assert!(find_alarm(&"error ".repeat(99), &[]).unwrap().ends_with('…'));
    }
}
