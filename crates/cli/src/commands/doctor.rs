//! `sexton doctor`: check the store and its surroundings, name each finding and its cure.

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::findings::{
    Finding, Severity, check_clock, check_filesystem, check_permissions, check_probe, check_store,
};
use crate::findings::{repair_permissions, repair_store};
use crate::screen::{Screen, Tone};
use crate::yard_findings::{check_exit_files, check_logind, check_worktrees, repair_yard};

/// Check the store and its surroundings; name each finding and its cure.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton doctor                    look, and change nothing
  sexton doctor --repair           set damage aside, keep every readable record, make the store writable")]
pub struct DoctorArgs {
    /// Mend what can be mended
    #[arg(long)]
    repair: bool,
}

/// Checks everything; with `--repair` mends first and then checks what is left.
pub async fn run(args: &DoctorArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let mut findings = Vec::new();
    if args.repair {
        findings.extend(repair_permissions(context)?);
        findings.extend(repair_store(context).await?);
        findings.extend(repair_yard(context).await?);
    }
    findings.extend(check_permissions(context));
    findings.extend(check_filesystem(context));
    findings.extend(check_store(context).await);
    findings.extend(check_clock(context).await);
    findings.extend(check_exit_files(context));
    findings.push(check_probe(context));
    findings.extend(check_surroundings(context).await);
    findings.extend(check_logind());
    print(&findings, context.screen)?;
    Ok(findings.iter().map(Finding::exit).max().unwrap_or(Exit::DONE))
}

/// What needs a store that can be read; one that cannot has been reported already.
async fn check_surroundings(context: &mut Context<'_>) -> Vec<Finding> {
    check_worktrees(context).await.unwrap_or_default()
}

fn print(findings: &[Finding], screen: &Screen) -> Result<(), Failure> {
    if screen.json {
        let documents: Vec<_> = findings
            .iter()
            .map(|finding| {
                json!({"severity": finding.severity.as_str(), "subject": finding.subject,
                       "what": finding.what, "cure": finding.cure})
            })
            .collect();
        let healthy = findings.iter().all(|finding| finding.exit() == Exit::DONE);
        return screen.document(&json!({"healthy": healthy, "findings": documents}));
    }
    for finding in findings {
        let tone = match finding.severity {
            Severity::Good => Tone::Good,
            Severity::Mended | Severity::Notice => Tone::Warning,
            Severity::Problem | Severity::StoreUnusable => Tone::Error,
        };
        let severity = screen.style().paint(tone, &format!("{:>7}", finding.severity.as_str()));
        screen.line(&format!("{severity}  {}: {}", finding.subject, finding.what))?;
        if let Some(cure) = &finding.cure {
            screen.line(&format!("         {} {cure}", screen.style().paint(Tone::Hint, "cure:")))?;
        }
    }
    Ok(())
}
