//! `cargo xtask docs`: the generated documents below docs/.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use sexton_workspace::command::shown;
use sexton_workspace::{build, root};

use crate::{Result, picture};

/// What is generated, below docs/. Everything in these folders is; nothing else is touched.
const FOLDERS: [&str; 2] = ["man", "completions"];
const FILES: [&str; 1] = ["schema.json"];

/// The options of `docs`.
#[derive(clap::Args)]
pub(crate) struct DocsArguments {
    /// Change nothing; fail if a document is out of date
    #[arg(long)]
    check: bool,
    /// Only take the picture of the live view again, docs/images/top.svg
    #[arg(long, conflicts_with = "check")]
    picture: bool,
}

/// Documents by their path below docs/.
type Documents = BTreeMap<String, Vec<u8>>;

/// Writes the documents, or with `--check` compares them.
pub(crate) fn run(arguments: &DocsArguments) -> Result {
    if arguments.picture {
        return picture::take();
    }
    if arguments.check {
        let stale = find_stale()?;
        return if stale.is_empty() {
            Ok(())
        } else {
            Err(format!("{}\nhint: run `cargo xtask docs`", stale.join("\n")).into())
        };
    }
    write(&generate()?, &root().join("docs"))
}

/// Returns one line per document that is out of date.
pub(crate) fn find_stale() -> Result<Vec<String>> {
    Ok(compare(&generate()?, &load(&root().join("docs"))?))
}

/// Returns the documents as the program writes them now.
fn generate() -> Result<Documents> {
    let out = tempfile::tempdir()?;
    let built = build(&["build", "--quiet", "--workspace", "--example", "generate"])?;
    let generate = built.into_iter().find(|program| program.name == "generate");
    let mut command = Command::new(generate.ok_or("cargo built no `generate`")?.path);
    let status = command.current_dir(root()).arg(out.path()).status()?;
    if !status.success() {
        return Err(format!("`{}` failed ({status})", shown(&command)).into());
    }
    let documents = load(out.path())?;
    if documents.is_empty() {
        return Err(format!("`{}` wrote nothing", shown(&command)).into());
    }
    Ok(documents)
}

/// Returns every generated document below `docs`.
fn load(docs: &Path) -> Result<Documents> {
    let mut documents = Documents::new();
    for folder in FOLDERS {
        if !docs.join(folder).exists() {
            continue;
        }
        for entry in fs::read_dir(docs.join(folder))? {
            let name = entry?.file_name();
            let path = format!("{folder}/{}", name.to_string_lossy());
            documents.insert(path.clone(), fs::read(docs.join(path))?);
        }
    }
    for file in FILES {
        if docs.join(file).exists() {
            documents.insert(file.to_owned(), fs::read(docs.join(file))?);
        }
    }
    Ok(documents)
}

fn compare(current: &Documents, found: &Documents) -> Vec<String> {
    let mut stale = Vec::new();
    for (path, content) in current {
        match found.get(path) {
            Some(there) if there == content => {}
            Some(_) => stale.push(format!("docs/{path}: out of date")),
            None => stale.push(format!("docs/{path}: missing")),
        }
    }
    let unwritten = found.keys().filter(|path| !current.contains_key(*path));
    stale.extend(unwritten.map(|path| format!("docs/{path}: no longer generated")));
    stale
}

fn write(current: &Documents, docs: &Path) -> Result {
    for path in load(docs)?.keys().filter(|path| !current.contains_key(*path)) {
        fs::remove_file(docs.join(path))?;
    }
    for (path, content) in current {
        let path = docs.join(path);
        fs::create_dir_all(path.parent().expect("it lies below docs"))?;
        fs::write(path, content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(list: &[(&str, &str)]) -> Documents {
        list.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn a_changed_missing_or_obsolete_document_is_stale() {
        let current = documents(&[("man/sexton.1", "new"), ("schema.json", "{}")]);
        assert_eq!(compare(&current, &current), Vec::<String>::new());
        let found = documents(&[("man/sexton.1", "old"), ("man/sexton-gone.1", "")]);
        let stale = compare(&current, &found);
        assert_eq!(
            stale,
            [
                "docs/man/sexton.1: out of date",
                "docs/schema.json: missing",
                "docs/man/sexton-gone.1: no longer generated",
            ]
        );
    }

    #[test]
    fn writing_updates_the_generated_documents_only() {
        let docs = tempfile::tempdir().unwrap();
        let at = |path: &str| docs.path().join(path);
        fs::create_dir(at("man")).unwrap();
        fs::write(at("man/sexton-gone.1"), "").unwrap();
        fs::write(at("benchmarks.md"), "by hand").unwrap();
        let current = documents(&[("man/sexton.1", "new"), ("schema.json", "{}")]);
        write(&current, docs.path()).unwrap();
        assert_eq!(load(docs.path()).unwrap(), current);
        assert_eq!(fs::read_to_string(at("benchmarks.md")).unwrap(), "by hand");
    }
}
