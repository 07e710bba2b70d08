//! A command line that an agent wrote as one text, taken apart into words.
//!
//! Quotes and backslashes mean what they mean to a shell. Nothing is expanded, and nothing is executed: text
//! that only a shell could understand is refused instead of being passed on as words that mean nothing.

/// Why a text cannot be taken apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    /// There is nothing in it.
    #[error("there is no command in it")]
    Empty,
    /// A quote is not closed, or nothing follows a backslash.
    #[error("{0} is not closed")]
    Unclosed(&'static str),
    /// It means something to a shell, and there is none.
    #[error("`{0}` means something only to a shell, and no shell is used")]
    NeedsShell(char),
}

/// What a shell acts on outside of quotes.
const OPERATORS: &str = "|&;<>()$`\n";

/// What a shell acts on inside double quotes.
const EXPANSIONS: &str = "$`";

/// The words of `text`.
pub fn split_words(text: &str) -> Result<Vec<String>, WordsError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    // A line's own end is no second command.
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
    fn words_are_what_a_shell_would_make_of_them() {
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
    fn what_only_a_shell_could_understand_is_refused() {
        for text in ["a | b", "a; b", "a && b", "a > f", "a $HOME", "a `b`", "a \"$(b)\"", "a\nb", "(a)"] {
            assert!(matches!(split_words(text), Err(WordsError::NeedsShell(_))), "{text}");
        }
    }

    #[test]
    fn what_is_empty_or_unfinished_is_refused() {
        for text in ["", "  ", "''", "a 'b", "a \"b", "a \\", "\"a\\"] {
            assert!(split_words(text).is_err(), "{text}");
        }
    }
}
