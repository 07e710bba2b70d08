//! Writes the files that are generated from the program: man pages, completions, the JSON Schema.

use std::fs;
use std::path::{Path, PathBuf};

use clap_complete::Shell;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out: PathBuf = std::env::args_os().nth(1).ok_or("usage: generate OUTDIR")?.into();
    write_man_pages(&out.join("man"))?;
    write_completions(&out.join("completions"))?;
    let schema = serde_json::to_string_pretty(&sexton_cli::record_schema())?;
    fs::write(out.join("schema.json"), schema + "\n")?;
    Ok(())
}

fn write_man_pages(dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    fs::create_dir_all(dir)?;
    clap_mangen::generate_to(sexton_cli::command(), dir)?;
    Ok(())
}

fn write_completions(dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    fs::create_dir_all(dir)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish] {
        clap_complete::generate_to(shell, &mut sexton_cli::command(), "sexton", dir)?;
    }
    Ok(())
}
