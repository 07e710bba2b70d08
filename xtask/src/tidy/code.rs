//! Rust text without its comments and literals, so that a rule about code never matches prose.
//!
//! Not a parser: it implements just enough of the lexer to distinguish code from the rest.

/// Returns `text` with every comment, string and character literal blanked out; line numbers stay the same.
pub(super) fn without_prose(text: &str) -> String {
    let mut scanner = Scanner { rest: text, out: String::with_capacity(text.len()) };
    while let Some(next) = scanner.rest.chars().next() {
        if scanner.rest.starts_with("//") {
            let length = scanner.rest.find('\n').unwrap_or(scanner.rest.len());
            scanner.blank(length);
        } else if scanner.rest.starts_with("/*") {
            scanner.blank(block_comment(scanner.rest));
        } else if next == '"' {
            scanner.blank(string(scanner.rest));
        } else if next == '\'' {
            match character(scanner.rest) {
                Some(length) => scanner.blank(length),
                None => scanner.keep(1),
            }
        } else if is_word(next) {
            let word = scanner.rest.find(|c| !is_word(c)).unwrap_or(scanner.rest.len());
            match raw_string(scanner.rest, word) {
                Some(length) => scanner.blank(length),
                None => scanner.keep(word),
            }
        } else {
            scanner.keep(next.len_utf8());
        }
    }
    scanner.out
}

/// Returns the numbers of the lines in which `word` is a whole word in `code`.
pub(super) fn lines_with_word<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let alone = move |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + word.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    };
    code.lines().enumerate().filter(move |(_, line)| alone(line)).map(|(index, _)| index + 1)
}

/// Returns whether `c` can be part of an identifier.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Scanner<'a> {
    rest: &'a str,
    out: String,
}

impl Scanner<'_> {
    fn keep(&mut self, length: usize) {
        let (kept, rest) = self.rest.split_at(length);
        self.out.push_str(kept);
        self.rest = rest;
    }

    fn blank(&mut self, length: usize) {
        let (prose, rest) = self.rest.split_at(length);
        self.out.extend(prose.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        self.rest = rest;
    }
}

/// Returns the length of the comment that `text` begins with; comments nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Returns the length of the string that `text` begins with.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of the character literal that `text` begins with; `None` if it is a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut inside = text.char_indices().skip(1);
    match inside.next()? {
        (_, '\\') => {
            inside.next()?;
            inside.find(|(_, c)| *c == '\'').map(|(at, _)| at + 1)
        }
        _ => inside.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 1),
    }
}

/// Returns the length of the raw string that `text` begins with, if its first `word` bytes are its prefix.
fn raw_string(text: &str, word: usize) -> Option<usize> {
    let (prefix, rest) = text.split_at(word);
    if !matches!(prefix, "r" | "br" | "cr") {
        return None;
    }
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let inside = rest[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(word + hashes + 1 + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_removed_and_code_is_kept() {
        for (text, kept) in [
            ("a // b", "a"),
            ("a /* b /* c */ d */ e", "a e"),
            (r#"a "b \" c" d"#, "a d"),
            (r##"a r#"b " c"# d"##, "a d"),
            (r#"a br"b\" d"#, "a d"),
            ("a '\"' b", "a b"),
            (r"a '\'' b", "a b"),
            ("fn a<'b>(c: &'b str)", "fn a<'b>(c: &'b str)"),
            ("a for\"b\" c", "a for c"),
            ("é '→' ü", "é ü"),
        ] {
            let code = without_prose(text);
            assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), kept, "{text}");
        }
    }

    #[test]
    fn line_numbers_do_not_change() {
        let code = without_prose("\"a\nb\"\n/* c\n*/ d");
        assert_eq!(code.lines().map(str::trim).collect::<Vec<_>>(), ["", "", "", "d"]);
    }

    #[test]
    fn an_unfinished_literal_ends_with_the_file() {
        for text in ["\"a", "/* a", "r#\"a", "'\\", "'"] {
            without_prose(text);
        }
    }

    #[test]
    fn only_whole_words_are_found() {
        let code = "dbg_all!()\ndbg!()\nmy_dbg!()\n  x.dbg";
        assert_eq!(lines_with_word(code, "dbg").collect::<Vec<_>>(), [2, 4]);
    }
}
