//! Entry points for the fuzz target `git`, for what a scan reads. Compiled only with `--cfg fuzzing`.

use super::ewah::Bitmap;
use super::index::Index;
use super::wildmatch::matches;

/// Checks that every entry of an index file, without its checksum, can be looked up.
pub fn index(body: &[u8]) {
    let Ok(mut index) = Index::parse_unsummed(body) else { return };
    index.sort();
    let all = 0..index.entries.len();
    for (position, entry) in index.entries.iter().enumerate() {
        let path = index.path(entry);
        assert!(index.at(all.clone(), path).contains(&position), "an entry is found by its path");
        assert!(
            index.below(all.clone(), &path[..path.len() / 2]).contains(&position),
            "an entry is found by a prefix of its path"
        );
    }
}

/// Checks the bitmap of a split index with `entries` entries.
pub fn bitmap(bytes: &[u8], entries: usize) {
    if let Some((bitmap, rest)) = Bitmap::parse(bytes, entries) {
        assert!(rest.len() < bytes.len());
        assert!(bitmap.ones().is_sorted());
        assert!(bitmap.ones().count() <= entries + 128, "a bitmap does not exceed its index");
    }
}

/// Checks a pattern and a path. A pattern without special characters matches only itself.
pub fn pattern(pattern: &[u8], path: &[u8]) {
    let by_path = matches(pattern, path, true);
    assert!(
        !by_path || matches(pattern, path, false) || pattern.contains(&b'*'),
        "without by_path, a slash is an ordinary character"
    );
    if !pattern.iter().chain(path).any(|byte| b"*?[\\\0".contains(byte)) {
        assert_eq!(by_path, pattern == path);
    }
}
