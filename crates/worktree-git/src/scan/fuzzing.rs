//! What the fuzz target `git` does to what a scan reads. Compiled for it alone, with `--cfg fuzzing`.

use super::ewah::Bitmap;
use super::index::Index;
use super::wildmatch::matches;

/// An index file, but for the checksum at its end. What is understood can be looked up.
pub fn index(body: &[u8]) {
    let Ok(mut index) = Index::parse_unsummed(body) else { return };
    index.sort();
    let all = 0..index.entries.len();
    for (position, entry) in index.entries.iter().enumerate() {
        let path = index.path(entry);
        assert!(index.at(all.clone(), path).contains(&position), "an entry is found by its path");
        assert!(
            index.below(all.clone(), &path[..path.len() / 2]).contains(&position),
            "and by its beginning"
        );
    }
}

/// The bitmap of a split index of so many entries.
pub fn bitmap(bytes: &[u8], entries: usize) {
    if let Some((bitmap, rest)) = Bitmap::parse(bytes, entries) {
        assert!(rest.len() < bytes.len());
        assert!(bitmap.ones().is_sorted());
        assert!(bitmap.ones().count() <= entries + 128, "a bitmap is about its index");
    }
}

/// A pattern and a path. What has no special letter matches itself alone.
pub fn pattern(pattern: &[u8], path: &[u8]) {
    let by_path = matches(pattern, path, true);
    assert!(
        !by_path || matches(pattern, path, false) || pattern.contains(&b'*'),
        "a slash is a letter like others"
    );
    if !pattern.iter().chain(path).any(|byte| b"*?[\\\0".contains(byte)) {
        assert_eq!(by_path, pattern == path);
    }
}
