//! What README.md quotes of docs/benchmarks.md. The benchmarks copy it, and `cargo xtask tidy` compares the two.

/// The marks around the quotation, in both files.
pub const MARKS: (&str, &str) = ("<!-- quoted figures -->", "<!-- end of quoted figures -->");

/// Returns what `document` has between the marks, including them.
pub fn find_quotation(document: &str) -> Option<&str> {
    let (begin, end) = MARKS;
    let from = document.find(begin)?;
    let to = document[from..].find(end)? + from + end.len();
    Some(&document[from..to])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_between_both_marks_is_a_quotation() {
        let (begin, end) = MARKS;
        let quotation = format!("{begin}\n5 ms\n{end}");
        assert_eq!(find_quotation(&format!("before\n{quotation}\nafter")), Some(&*quotation));
        assert_eq!(find_quotation(begin), None);
        assert_eq!(find_quotation(&format!("{end}\n{begin}")), None);
    }
}
