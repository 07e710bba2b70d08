//! The agent's command: a template that is split into words once, and whose placeholders are replaced inside the words.
//! A ticket is never passed to a shell.

use crate::ticket::Ticket;

/// Placeholders in a template.
const TICKET: &str = "{ticket}";
const WORKFLOW: &str = "{workflow}";
const FLAGS: &str = "{flags}";

/// The default template.
const PI: &str = "pi -p '{workflow} {ticket} {flags}'";

/// The options that make pi print its events as JSON.
const JSON_MODE: [&str; 2] = ["--mode", "json"];

/// An agent that can be started for any ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    words: Vec<String>,
}

/// Why a template is not a valid command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// A quote is not closed.
    #[error("the agent's command `{}` cannot be split into words: a quote is missing", .0.escape_debug())]
    Quotes(String),
    /// It has no program, or the program depends on the ticket.
    #[error("the agent's command `{}` does not begin with a program", .0.escape_debug())]
    NoProgram(String),
    /// It does not contain the ticket.
    #[error("the agent's command `{}` does not contain {{ticket}}", .0.escape_debug())]
    NoTicket(String),
}

impl Agent {
    /// Creates the agent from `template`; the default is pi with `workflow` and `flags`. With `json`, adds the options
    /// that make pi print its events as JSON; for another agent they belong in its template.
    pub fn new(
        template: Option<&str>,
        workflow: &str,
        flags: Option<&str>,
        json: bool,
    ) -> Result<Agent, AgentError> {
        let template = template.unwrap_or(PI);
        let words = shell_words::split(template).map_err(|_| AgentError::Quotes(template.to_owned()))?;
        match words.first() {
            Some(program) if !program.is_empty() && !program.contains(TICKET) => {}
            _ => return Err(AgentError::NoProgram(template.to_owned())),
        }
        if !words.iter().any(|word| word.contains(TICKET)) {
            return Err(AgentError::NoTicket(template.to_owned()));
        }
        let flags = flags.unwrap_or_default();
        let filled = words.iter().map(|word| {
            let filled = word.replace(WORKFLOW, workflow).replace(FLAGS, flags);
            // Empty flags leave a trailing space.
            if word.contains(FLAGS) { filled.trim_end().to_owned() } else { filled }
        });
        let mut words: Vec<_> = filled.collect();
        if json && is_pi(&words) && !words.iter().any(|word| word == JSON_MODE[0]) {
            let after = words.iter().position(|word| word == "-p").map_or(1, |at| at + 1);
            words.splice(after..after, JSON_MODE.map(str::to_owned));
        }
        Ok(Agent { words })
    }

    /// Returns the program and arguments for `ticket`.
    pub fn command(&self, ticket: &Ticket) -> Vec<String> {
        self.words.iter().map(|word| word.replace(TICKET, ticket.as_str())).collect()
    }

    /// Returns the program.
    pub fn program(&self) -> &str {
        &self.words[0]
    }
}

fn is_pi(words: &[String]) -> bool {
    words[0].rsplit('/').next() == Some("pi")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(template: Option<&str>, flags: Option<&str>, json: bool) -> Vec<String> {
        Agent::new(template, "/tf", flags, json).unwrap().command(&"T-1".parse().unwrap())
    }

    #[test]
    fn pi_is_the_default_agent() {
        assert_eq!(command(None, Some("--auto"), false), ["pi", "-p", "/tf T-1 --auto"]);
        assert_eq!(command(None, None, false), ["pi", "-p", "/tf T-1"]);
        assert_eq!(command(None, Some("--auto"), true), ["pi", "-p", "--mode", "json", "/tf T-1 --auto"]);
    }

    #[test]
    fn placeholders_are_replaced_inside_words() {
        let template = r#"claude -p "work on {ticket}, then \"commit\"" --name={ticket} '$HOME; {ticket}'"#;
        let expected =
            ["claude", "-p", "work on T-1, then \"commit\"", "--name=T-1", "$HOME; T-1"].map(str::to_owned);
        assert_eq!(command(Some(template), None, true), expected);
    }

    #[test]
    fn existing_mode_option_is_kept() {
        let words = command(Some("/opt/pi --mode rpc -p {ticket}"), None, true);
        assert_eq!(words, ["/opt/pi", "--mode", "rpc", "-p", "T-1"]);
        assert_eq!(command(Some("pi {ticket}"), None, true), ["pi", "--mode", "json", "T-1"]);
    }

    #[test]
    fn invalid_template_is_refused() {
        let error = |template| Agent::new(Some(template), "/tf", None, false).unwrap_err().to_string();
        assert_eq!(
            error("claude 'x"),
            "the agent's command `claude \\'x` cannot be split into words: a quote is missing"
        );
        assert_eq!(error("claude -p work"), "the agent's command `claude -p work` does not contain {ticket}");
        for template in ["", "  ", "'' {ticket}", "{ticket}", "./{ticket} x"] {
            assert!(error(template).contains("does not begin with a program"), "{template}");
        }
    }
}
