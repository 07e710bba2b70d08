//! git's pattern matching. It decides whether a file is ignored, and so whether it is saved. It therefore
//! follows `wildmatch.c` step by step, and a test compares it with git.

/// The result of a match.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Match,
    Mismatch,
    /// The text is too short, so no star can match.
    AbortAll,
    /// A single star cannot cross a slash, but an earlier double star may.
    AbortToDoubleStar,
}

/// Returns whether a pattern matches the whole text. With `by_path`, only `**` crosses a slash.
pub(super) fn matches(pattern: &[u8], text: &[u8], by_path: bool) -> bool {
    Matcher { pattern, text, by_path }.run(0, 0) == Outcome::Match
}

struct Matcher<'a> {
    pattern: &'a [u8],
    text: &'a [u8],
    by_path: bool,
}

impl Matcher<'_> {
    /// Returns the byte of the pattern at `at`; 0 at its end, as in C.
    fn p(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    /// Returns the byte of the text at `at`; 0 at its end.
    fn t(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    fn run(&self, from: usize, text: usize) -> Outcome {
        let (mut p, mut t) = (from, text);
        while self.p(p) != 0 {
            let letter = self.t(t);
            if letter == 0 && self.p(p) != b'*' {
                return Outcome::AbortAll;
            }
            match self.p(p) {
                b'*' => match self.star(from, p, t) {
                    Star::Done(outcome) => return outcome,
                    Star::At(slash, next) => (t, p) = (slash, next),
                },
                b'[' => match self.set(p, letter) {
                    Ok(end) => p = end,
                    Err(outcome) => return outcome,
                },
                b'?' if self.by_path && letter == b'/' => return Outcome::Mismatch,
                b'?' => {}
                b'\\' => {
                    p += 1;
                    if self.p(p) != letter {
                        return Outcome::Mismatch;
                    }
                }
                plain if plain != letter => return Outcome::Mismatch,
                _ => {}
            }
            p += 1;
            t += 1;
        }
        if self.t(t) == 0 { Outcome::Match } else { Outcome::Mismatch }
    }

    /// Matches a star at `p`, in a run of the matcher that started at `from`.
    fn star(&self, from: usize, p: usize, text: usize) -> Star {
        let mut next = p + 1;
        let mut crosses = !self.by_path;
        if self.p(next) == b'*' {
            while self.p(next) == b'*' {
                next += 1;
            }
            let begins = p == from || self.p(p - 1) == b'/';
            let ends = matches!((self.p(next), self.p(next + 1)), (0 | b'/', _) | (b'\\', b'/'));
            if self.by_path && begins && ends {
                // `a/**/b` also matches `a/b`.
                if self.p(next) == b'/' && self.run(next + 1, text) == Outcome::Match {
                    return Star::Done(Outcome::Match);
                }
                crosses = true;
            }
        }
        let slash = || self.text[text..].iter().position(|byte| *byte == b'/').map(|slash| text + slash);
        if self.p(next) == 0 {
            return Star::Done(if crosses || slash().is_none() {
                Outcome::Match
            } else {
                Outcome::AbortToDoubleStar
            });
        }
        if !crosses && self.p(next) == b'/' {
            return match slash() {
                Some(slash) => Star::At(slash, next),
                None => Star::Done(Outcome::AbortAll),
            };
        }
        Star::Done(self.stretch(next, text, crosses))
    }

    /// Extends a star over more of the text until the rest of the pattern matches.
    fn stretch(&self, rest: usize, text: usize, crosses: bool) -> Outcome {
        for t in text..self.text.len() {
            match self.run(rest, t) {
                Outcome::Mismatch if !crosses && self.t(t) == b'/' => return Outcome::AbortToDoubleStar,
                Outcome::Mismatch => {}
                Outcome::AbortToDoubleStar if crosses => {}
                outcome => return outcome,
            }
        }
        Outcome::AbortAll
    }

    /// Matches a set such as `[a-z]` at `p`; returns the position of its `]` if it contains the letter.
    fn set(&self, mut p: usize, letter: u8) -> Result<usize, Outcome> {
        p += 1;
        let negated = matches!(self.p(p), b'!' | b'^');
        p += usize::from(negated);
        let (mut found, mut previous) = (false, 0);
        loop {
            let mut current = self.p(p);
            match current {
                0 => return Err(Outcome::AbortAll),
                b'\\' => {
                    p += 1;
                    current = self.p(p);
                    if current == 0 {
                        return Err(Outcome::AbortAll);
                    }
                    found |= letter == current;
                }
                b'-' if previous != 0 && !matches!(self.p(p + 1), 0 | b']') => {
                    p += 1;
                    if self.p(p) == b'\\' {
                        p += 1;
                    }
                    if self.p(p) == 0 {
                        return Err(Outcome::AbortAll);
                    }
                    found |= (previous..=self.p(p)).contains(&letter);
                    current = 0;
                }
                b'[' if self.p(p + 1) == b':' => {
                    let name = p + 2;
                    let end = (name..self.pattern.len()).find(|at| self.p(*at) == b']');
                    let end = end.ok_or(Outcome::AbortAll)?;
                    if end > name && self.p(end - 1) == b':' {
                        found |=
                            is_in_class(&self.pattern[name..end - 1], letter).ok_or(Outcome::AbortAll)?;
                        p = end;
                        current = 0;
                    } else {
                        found |= letter == b'[';
                    }
                }
                _ => found |= letter == current,
            }
            previous = current;
            p += 1;
            if self.p(p) == b']' {
                break;
            }
        }
        if found == negated || self.by_path && letter == b'/' { Err(Outcome::Mismatch) } else { Ok(p) }
    }
}

/// The result of matching a star.
enum Star {
    Done(Outcome),
    /// It matched everything before this slash of the text, and this slash of the pattern matches that one.
    At(usize, usize),
}

fn is_in_class(name: &[u8], letter: u8) -> Option<bool> {
    Some(match name {
        b"alnum" => letter.is_ascii_alphanumeric(),
        b"alpha" => letter.is_ascii_alphabetic(),
        b"blank" => matches!(letter, b' ' | b'\t'),
        b"cntrl" => letter.is_ascii_control(),
        b"digit" => letter.is_ascii_digit(),
        b"graph" => letter.is_ascii_graphic(),
        b"lower" => letter.is_ascii_lowercase(),
        b"print" => letter.is_ascii_graphic() || letter == b' ',
        b"punct" => letter.is_ascii_punctuation(),
        b"space" => matches!(letter, b' ' | b'\t'..=b'\r'),
        b"upper" => letter.is_ascii_uppercase(),
        b"xdigit" => letter.is_ascii_hexdigit(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_slashes_match_as_in_git() {
        for (pattern, text, by_path, expected) in [
            ("foo", "foo", true, true),
            ("*", "foo", true, true),
            ("*f", "foo", true, false),
            ("*", "foo/bar", true, false),
            ("*", "foo/bar", false, true),
            ("**/foo", "foo", true, true),
            ("**/foo", "a/b/foo", true, true),
            ("foo/**/bar", "foo/bar", true, true),
            ("foo/**/bar", "foo/a/b/bar", true, true),
            ("foo/**", "foo/a/b", true, true),
            ("foo**bar", "foo/bar", true, false),
            ("foo/*/bar", "foo/a/b/bar", true, false),
            ("[a-c]", "b", true, true),
            ("[!a-c]", "b", true, false),
            ("[[:digit:]x]", "7", true, true),
            ("[]]", "]", true, true),
            ("a[", "a[", true, false),
            ("\\*", "*", true, true),
            ("a/[!x]b", "a//b", true, false),
            ("*a*b*c*", "xxaxxbxxcxx", false, true),
        ] {
            let found = matches(pattern.as_bytes(), text.as_bytes(), by_path);
            assert_eq!(found, expected, "{pattern} on {text}");
        }
    }
}
