//! `sexton doctor`: checks the store and its environment.

use clap::Args;
use serde_json::json;
use sexton_core::containment::ContainedBy;

use crate::containment_findings::{ContainmentReport, check_containment};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::findings::{
    Finding, Severity, check_clock, check_filesystem, check_permissions, check_probe, check_store,
};
use crate::findings::{repair_permissions, repair_store};
use crate::screen::{Screen, Tone, visible};
use crate::state_findings::{
    check_exit_files, check_host_id, check_logind, check_logs, check_worktrees, repair_small_files,
    repair_state,
};

/// Check the store and its environment, and show how to fix each problem.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton doctor                    check without changing anything
  sexton doctor --repair           move damaged data aside and keep every readable record")]
pub struct DoctorArgs {
    /// Repair what can be repaired
    #[arg(long)]
    repair: bool,
}

/// Runs all checks. With `--repair`, repairs first and then checks.
pub async fn run(args: &DoctorArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let mut findings = Vec::new();
    if args.repair {
        findings.extend(repair_permissions(context)?);
        findings.extend(repair_small_files(context));
        findings.extend(repair_store(context).await?);
        findings.extend(repair_state(context).await?);
    }
    findings.extend(check_permissions(context));
    findings.extend(check_filesystem(context));
    findings.extend(check_store(context).await);
    findings.extend(check_clock(context).await);
    findings.extend(check_exit_files(context));
    findings.extend(check_host_id(context));
    findings.push(check_probe(context));
    let containment = context.open_probe().ok().map(|probe| check_containment(probe.as_ref(), context));
    findings.extend(containment.as_ref().map(ContainmentReport::finding));
    findings.extend(check_logs(context).await);
    findings.extend(check_readable_state(context).await);
    // With lingering, a user's service manager and its scopes keep running after logout.
    if !containment.as_ref().is_some_and(|report| report.in_use == Ok(ContainedBy::Systemd) && report.lingers)
    {
        findings.extend(check_logind());
    }
    print(&findings, containment.as_ref(), context.screen)?;
    Ok(findings.iter().map(Finding::exit).max().unwrap_or(Exit::DONE))
}

/// Runs the checks that need a readable store. An unreadable store was already reported.
async fn check_readable_state(context: &mut Context<'_>) -> Vec<Finding> {
    check_worktrees(context).await.unwrap_or_default()
}

fn print(
    findings: &[Finding],
    containment: Option<&ContainmentReport>,
    screen: &Screen,
) -> Result<(), Failure> {
    if screen.json {
        let documents: Vec<_> = findings
            .iter()
            .map(|finding| {
                json!({"severity": finding.severity.as_str(), "subject": finding.subject,
                       "what": finding.what, "cure": finding.fix})
            })
            .collect();
        let healthy = findings.iter().all(|finding| finding.exit() == Exit::DONE);
        let containment = containment.map(ContainmentReport::document);
        return screen
            .document(&json!({"healthy": healthy, "findings": documents, "containment": containment}));
    }
    for finding in findings {
        let tone = match finding.severity {
            Severity::Good => Tone::Good,
            Severity::Mended | Severity::Notice => Tone::Warning,
            Severity::Problem | Severity::StoreUnusable => Tone::Error,
        };
        let severity = screen.style().paint(tone, &format!("{:>7}", finding.severity.as_str()));
        screen.line(&format!("{severity}  {}: {}", finding.subject, visible(&finding.what)))?;
        if let Some(fix) = &finding.fix {
            let label = screen.style().paint(Tone::Hint, "fix:");
            screen.line(&format!("         {label} {}", visible(fix)))?;
        }
    }
    Ok(())
}
