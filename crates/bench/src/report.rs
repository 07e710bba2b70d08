//! docs/benchmarks.md: one section per bench, between markers, so that each bench rewrites only its own.

use std::fs;
use std::path::Path;

use sexton_workspace::quotation::{MARKS, find_quotation};
use sexton_workspace::root;

use crate::Result;

const FILE: &str = "docs/benchmarks.md";

/// The start of a new file.
const HEADING: &str = "# Benchmarks\n";

const README: &str = "README.md";

/// Returns a sentence of these parts, between the marks of what README.md quotes.
pub(super) fn quotation(parts: &[&str]) -> String {
    let (begin, end) = MARKS;
    let Some((last, before)) = parts.split_last() else { return format!("{begin}\n{end}") };
    let mut sentence = before.join("; ");
    if !before.is_empty() {
        sentence.push_str("; and ");
    }
    sentence.push_str(last);
    let sentence = wrapped(&format!("Measured beside what people use today: {sentence}."));
    format!("{begin}\n{sentence}\n{end}")
}

/// How long a line of a page may be.
const COLUMNS: usize = 118;

/// Wraps a paragraph so that it is readable unrendered; text between backquotes is not split.
pub(super) fn wrapped(paragraph: &str) -> String {
    let mut lines = vec![String::new()];
    let mut unit = String::new();
    for word in paragraph.split(' ') {
        unit.push_str(if unit.is_empty() { "" } else { " " });
        unit.push_str(word);
        if !unit.matches('`').count().is_multiple_of(2) {
            continue;
        }
        let last = lines.last_mut().expect("there is one from the beginning");
        if !last.is_empty() && last.chars().count() + 1 + unit.chars().count() > COLUMNS {
            lines.push(unit);
        } else {
            last.push_str(if last.is_empty() { "" } else { " " });
            last.push_str(&unit);
        }
        unit = String::new();
    }
    lines.extend(Some(unit).filter(|unit| !unit.is_empty()));
    lines.join("\n")
}

/// Copies what docs/benchmarks.md has between the marks into README.md.
pub(super) fn quote_in_readme() -> Result {
    let page = load(&root().join(FILE))?;
    let quotation = find_quotation(&page).ok_or_else(|| format!("{FILE} has no `{}`", MARKS.0))?;
    let path = root().join(README);
    let readme = fs::read_to_string(&path)?;
    let stale = find_quotation(&readme).ok_or_else(|| format!("{README} has no `{}`", MARKS.0))?;
    Ok(fs::write(&path, readme.replace(stale, quotation))?)
}

/// Prints `body`, and writes it into the file as the section `name`.
pub(super) fn publish(name: &str, body: &str) -> Result {
    let path = root().join(FILE);
    let document = load(&path)?;
    fs::write(&path, with_section(&document, name, body)?)?;
    println!("{body}\nwritten to {FILE}");
    Ok(())
}

fn load(path: &Path) -> Result<String> {
    match fs::read_to_string(path) {
        Ok(document) => Ok(document),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(HEADING.to_owned()),
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}

/// Returns `document` with the section `name` replaced, or added at its end; the rest is unchanged.
fn with_section(document: &str, name: &str, body: &str) -> Result<String> {
    let (start, end) = (format!("<!-- bench {name} -->"), format!("<!-- end of bench {name} -->"));
    let section = format!("{start}\n{}\n{end}", body.trim_end());
    let Some((before, rest)) = document.split_once(&start) else {
        return Ok(format!("{}\n\n{section}\n", document.trim_end()));
    };
    let (_, after) = rest.split_once(&end).ok_or_else(|| format!("{FILE}: `{end}` is missing"))?;
    Ok(format!("{before}{section}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_added_then_replaced_without_other_changes() {
        let one = with_section(HEADING, "store", "first\n").unwrap();
        let two = with_section(&one, "run", "other").unwrap() + "\nRemarks by hand.\n";
        let three = with_section(&two, "store", "second").unwrap();
        assert_eq!(three, two.replace("first", "second"));
        assert_eq!(with_section(&three, "store", "second").unwrap(), three);
    }

    #[test]
    fn a_long_paragraph_is_wrapped_and_code_stays_whole() {
        let text = format!("{}`a b` end", "word ".repeat(23));
        assert_eq!(wrapped(&text), format!("{}\n`a b` end", "word ".repeat(23).trim_end()));
        let code = format!("`{}`", "a ".repeat(99));
        assert_eq!(wrapped(&code), code);
    }

    #[test]
    fn a_quotation_is_one_sentence_between_its_marks() {
        let page = format!("a\n\n{}\n\nb\n", quotation(&["a start returns after 5 ms", "none is left"]));
        let quoted = find_quotation(&page).unwrap();
        assert!(quoted.contains("today: a start returns after 5 ms; and none is left.\n"), "{quoted}");
    }

    #[test]
    fn a_section_without_an_end_is_an_error() {
        let error = with_section("<!-- bench store -->\nkept", "store", "new").unwrap_err().to_string();
        assert_eq!(error, "docs/benchmarks.md: `<!-- end of bench store -->` is missing");
    }
}
