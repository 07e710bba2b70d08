//! The check of `doctor` on containment: which kind a new session would get, what it proves, and how to get a
//! stronger one.

use serde_json::{Value, json};
use sexton_core::ProcessProbe;
use sexton_core::config::Containment;
use sexton_core::containment::{ContainedBy, containments_to_try};

use crate::context::Context;
use crate::findings::{Finding, Severity};

/// Which kinds of containment work on this machine.
pub struct ContainmentReport {
    configured: Containment,
    /// The kind that a new session would get, or why no session can start.
    pub in_use: Result<ContainedBy, String>,
    /// The kinds that do not work, and why.
    refused: Vec<(ContainedBy, String)>,
    /// Whether the user's service manager keeps running after logout.
    pub lingers: bool,
}

/// Checks every kind of containment without creating anything.
pub fn check_containment(probe: &dyn ProcessProbe, context: &Context<'_>) -> ContainmentReport {
    let configured = context.config.contain.value;
    let lingers = probe.lingers();
    // Each kind is checked only once, because a service manager that hangs is slow to fail.
    let kinds = [ContainedBy::Cgroup, ContainedBy::Systemd, ContainedBy::Tree];
    let refused: Vec<_> = kinds
        .into_iter()
        .filter_map(|by| Some((by, probe.check_containment(by).err()?.to_string())))
        .collect();
    let why_not = |by: ContainedBy| refused.iter().find(|(refused, _)| *refused == by).map(|(_, why)| why);
    let tried = containments_to_try(configured, || lingers);
    let works = tried.iter().copied().find(|by| why_not(*by).is_none());
    let in_use =
        works.ok_or_else(|| tried.into_iter().next_back().and_then(why_not).cloned().unwrap_or_default());
    ContainmentReport { configured, in_use, refused, lingers }
}

impl ContainmentReport {
    /// Returns the finding for the user.
    pub fn finding(&self) -> Finding {
        let subject = "containment";
        match &self.in_use {
            Err(why) => {
                let fix = "set `contain` to `auto`, or fix the cause";
                Finding::new(Severity::Problem, subject, format!("no session can start: {why}")).fix(fix)
            }
            Ok(by) => {
                let what = format!("{}: {}; {}", by.as_str(), by.proves(), by.misses());
                let stronger = self.stronger();
                let severity = if stronger.is_empty() { Severity::Good } else { Severity::Notice };
                let finding = Finding::new(severity, subject, what);
                if stronger.is_empty() { finding } else { finding.fix(stronger.join("; or ")) }
            }
        }
    }

    /// Returns the report as JSON.
    pub fn document(&self) -> Value {
        let refused: Vec<_> =
            self.refused.iter().map(|(by, why)| json!({"containment": by.as_str(), "why": why})).collect();
        let used = self.in_use.as_ref().ok();
        json!({
            "configured": serde_json::to_value(self.configured).unwrap_or_default(),
            "in_use": used.map(|by| by.as_str()),
            "proves": used.map(|by| by.proves()),
            "does_not_prove": used.map(|by| by.misses()),
            "lingers": self.lingers,
            "refused": refused,
            "stronger": self.stronger(),
        })
    }

    /// Returns the ways to get a stronger kind than the one in use.
    fn stronger(&self) -> Vec<String> {
        if self.in_use != Ok(ContainedBy::Tree) {
            return Vec::new();
        }
        let refused = |by: ContainedBy| self.refused.iter().any(|(refused, _)| *refused == by);
        let mut ways = Vec::new();
        if self.configured == Containment::Tree
            && !(refused(ContainedBy::Cgroup) && refused(ContainedBy::Systemd))
        {
            ways.push("set `contain = \"auto\"`".to_owned());
        }
        if !refused(ContainedBy::Systemd) && !self.lingers {
            ways.push(
                "run `loginctl enable-linger`, so that sessions get a scope of your service manager"
                    .to_owned(),
            );
        }
        if refused(ContainedBy::Systemd) {
            ways.push("run `sexton` where your service manager is reachable (XDG_RUNTIME_DIR)".to_owned());
        }
        if refused(ContainedBy::Cgroup) {
            ways.push("run `sexton` from a service with `Delegate=yes`".to_owned());
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(
        configured: Containment,
        in_use: ContainedBy,
        systemd: bool,
        lingers: bool,
    ) -> ContainmentReport {
        let refused = |by: ContainedBy| (by, "not here".to_owned());
        let mut all = vec![refused(ContainedBy::Cgroup)];
        all.extend((!systemd).then(|| refused(ContainedBy::Systemd)));
        ContainmentReport { configured, in_use: Ok(in_use), refused: all, lingers }
    }

    #[test]
    fn weak_containment_comes_with_a_fix() {
        let finding = report(Containment::Auto, ContainedBy::Tree, true, false).finding();
        assert_eq!(finding.severity, Severity::Notice);
        assert!(finding.what.starts_with("tree: "), "{}", finding.what);
        assert!(finding.fix.as_deref().is_some_and(|fix| fix.contains("loginctl enable-linger")));
        let finding = report(Containment::Auto, ContainedBy::Tree, false, false).finding();
        let fix = finding.fix.unwrap();
        assert!(fix.contains("Delegate=yes") && !fix.contains("linger"), "{fix}");
        let finding = report(Containment::Tree, ContainedBy::Tree, true, true).finding();
        assert!(finding.fix.unwrap().contains("contain = \"auto\""));
    }

    #[test]
    fn strong_containment_needs_no_fix() {
        let report = report(Containment::Auto, ContainedBy::Systemd, true, true);
        assert_eq!((report.finding().severity, report.finding().fix), (Severity::Good, None));
        assert_eq!(report.document()["in_use"], "systemd");
    }

    #[test]
    fn unavailable_configured_containment_is_a_problem() {
        let report = ContainmentReport {
            configured: Containment::Systemd,
            in_use: Err("no service manager".to_owned()),
            refused: Vec::new(),
            lingers: false,
        };
        assert_eq!(report.finding().severity, Severity::Problem);
        assert_eq!(report.document()["in_use"], Value::Null);
    }
}
