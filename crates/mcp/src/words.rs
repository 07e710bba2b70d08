//! Splits a command line given as one text into words.
//!
//! Quotes and backslashes work as in a shell. Nothing is expanded or executed: text that only a shell can interpret is
//! refused, not passed on literally.

/// Why a text cannot be split into words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    /// The text contains no command.
    #[error("it contains no command")]
    Empty,
    /// A quote is not closed, or nothing follows a backslash.
    #[error("{0} is not closed")]
    Unclosed(&'static str),
    /// The text needs a shell.
    #[error("`{0}` needs a shell, and no shell is used")]
    NeedsShell(char),
}

/// Characters that a shell interprets outside of quotes.
const OPERATORS: &str = "|&;<>()$`\n";

/// Characters that a shell interprets inside double quotes.
const EXPANSIONS: &str = "$`";

/// Splits `text` into words.
pub fn split_words(text: &str) -> Result<Vec<String>, WordsError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    // A trailing newline does not begin a second command.
    let mut rest = text.trim_matches('\n').chars();
    while let Some(next) = rest.next() {
        match next {
            ' ' | '\t' | '\r' => words.extend(word.take()),
            '\'' => {
                let quoted = single_quoted(&mut rest)?;
                word.get_or_insert_default().push_str(&quoted);
            }
            '"' => {
                let quoted = double_quoted(&mut rest)?;
                word.get_or_insert_default().push_str(&quoted);
            }
            '\\' => match rest.next() {
                Some(escaped) => word.get_or_insert_default().push(escaped),
                None => return Err(WordsError::Unclosed("a backslash at the end")),
            },
            operator if OPERATORS.contains(operator) => return Err(WordsError::NeedsShell(operator)),
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    if words.first().is_none_or(String::is_empty) { Err(WordsError::Empty) } else { Ok(words) }
}

fn single_quoted(rest: &mut std::str::Chars<'_>) -> Result<String, WordsError> {
    let (inside, after) = rest.as_str().split_once('\'').ok_or(WordsError::Unclosed("a single quote"))?;
    *rest = after.chars();
    Ok(inside.to_owned())
}

fn double_quoted(rest: &mut std::str::Chars<'_>) -> Result<String, WordsError> {
    let mut inside = String::new();
    while let Some(next) = rest.next() {
        match next {
            '"' => return Ok(inside),
            '\\' => match rest.next() {
                Some(escaped @ ('"' | '\\' | '$' | '`')) => inside.push(escaped),
                Some(other) => inside.extend(['\\', other]),
                None => break,
            },
            expansion if EXPANSIONS.contains(expansion) => return Err(WordsError::NeedsShell(expansion)),
            plain => inside.push(plain),
        }
    }
    Err(WordsError::Unclosed("a double quote"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_by_a_shell() {
        for (text, words) in [
            ("cargo test --all", vec!["cargo", "test", "--all"]),
            ("  git\tcommit -m 'two words' ", vec!["git", "commit", "-m", "two words"]),
            (r#"echo "a \"b\" \$c \d" ''"#, vec!["echo", r#"a "b" $c \d"#, ""]),
            (r"a\ b c\;d", vec!["a b", "c;d"]),
            (r#"x'y'"z""#, vec!["xyz"]),
            ("ls *.rs ~ {a,b}", vec!["ls", "*.rs", "~", "{a,b}"]),
            ("true\n", vec!["true"]),
            ("grüß 'dich → da'", vec!["grüß", "dich → da"]),
        ] {
            assert_eq!(split_words(text).unwrap(), words, "{text}");
        }
    }

    #[test]
    fn shell_syntax_is_refused() {
        for text in ["a | b", "a; b", "a && b", "a > f", "a $HOME", "a `b`", "a \"$(b)\"", "a\nb", "(a)"] {
            assert!(matches!(split_words(text), Err(WordsError::NeedsShell(_))), "{text}");
        }
    }

    #[test]
    fn empty_or_unclosed_text_is_refused() {
        for text in ["", "  ", "''", "a 'b", "a \"b", "a \\", "\"a\\"] {
            assert!(split_words(text).is_err(), "{text}");
        }
    }
}
