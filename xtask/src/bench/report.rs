//! docs/benchmarks.md: one section per bench, between markers, so that each bench rewrites only its own.

use std::fs;
use std::path::Path;

use crate::Result;
use crate::workspace::root;

const FILE: &str = "docs/benchmarks.md";

/// What the file begins with where there is none yet.
const HEADING: &str = "# Benchmarks\n";

/// Prints `body`, and puts it into the file as the section `name`.
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

/// `document` with the section `name` replaced, or added at its end; every other word stays.
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
    fn a_section_is_added_and_then_replaced_and_the_rest_stays() {
        let one = with_section(HEADING, "store", "first\n").unwrap();
        let two = with_section(&one, "run", "other").unwrap() + "\nRemarks by hand.\n";
        let three = with_section(&two, "store", "second").unwrap();
        assert_eq!(three, two.replace("first", "second"));
        assert_eq!(with_section(&three, "store", "second").unwrap(), three);
    }

    #[test]
    fn a_section_without_an_end_is_not_guessed_at() {
        let error = with_section("<!-- bench store -->\nkept", "store", "new").unwrap_err().to_string();
        assert_eq!(error, "docs/benchmarks.md: `<!-- end of bench store -->` is missing");
    }
}
