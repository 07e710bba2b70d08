//! What a tree cannot say: `manifest.json` in a rescue's state commit. People may read it with
//! `git show refs/sexton/rescue/<session>^2:manifest.json`.

use serde::{Deserialize, Serialize};
use sexton_core::{OsText, SessionId};

/// The format that this version writes. A larger number is refused.
pub(crate) const FORMAT: u32 = 1;

/// The manifest. It says nothing that changes while the worktree does not, such as a time: the same content
/// again is the same manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// [`FORMAT`].
    pub(crate) format: u32,
    /// Whose work it is.
    pub(crate) session: SessionId,
    /// The commit that was checked out; `None` for a branch without one.
    pub(crate) head: Option<String>,
    /// The full name of the branch that was checked out; `None` for a detached HEAD.
    pub(crate) branch: Option<OsText>,
    /// Whether the directory was gone, so that only what git had of it could be saved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) directory_gone: bool,
    /// How many files differ from HEAD.
    pub(crate) changed: usize,
    /// Files whose bytes are those that were on disk, with their permission bits: no filter and no
    /// conversion may touch them. A symlink has no bits.
    pub(crate) raw: Vec<PathBits>,
    /// Other files and directories with unusual permission bits.
    pub(crate) modes: Vec<PathBits>,
    /// Directories with nothing in them.
    pub(crate) empty_directories: Vec<OsText>,
    /// What is not in the rescue, and why.
    pub(crate) left_out: Vec<LeftOutPath>,
}

/// A path and its permission bits, in octal as `chmod` takes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PathBits {
    pub(crate) path: OsText,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "octal")]
    pub(crate) mode: Option<u32>,
}

/// A path that was not saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftOutPath {
    pub(crate) path: OsText,
    pub(crate) why: String,
}

mod octal {
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[expect(clippy::ref_option, reason = "serde hands it over like this")]
    pub(super) fn serialize<S: Serializer>(mode: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
        match mode {
            Some(mode) => serializer.collect_str(&format_args!("{mode:04o}")),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        u32::from_str_radix(&text, 8).map(Some).map_err(de::Error::custom)
    }
}

impl Manifest {
    /// The manifest as it is stored.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("its keys are strings");
        bytes.push(b'\n');
        bytes
    }

    /// Reads a manifest; an error says why this version cannot.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Manifest, String> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let Format { format } =
            serde_json::from_slice(bytes).map_err(|error| format!("its manifest is damaged: {error}"))?;
        if format != FORMAT {
            return Err(format!("its format is {format}, and this version reads {FORMAT}"));
        }
        serde_json::from_slice(bytes).map_err(|error| format!("its manifest is damaged: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_of_another_format_is_refused_whatever_else_it_says() {
        let refusal = Manifest::parse(br#"{"format": 2, "raw": "something new"}"#).unwrap_err();
        assert_eq!(refusal, "its format is 2, and this version reads 1");
    }

    #[test]
    fn permission_bits_are_written_in_octal_and_come_back() {
        let bits = PathBits { path: "a".into(), mode: Some(0o600) };
        let text = serde_json::to_string(&bits).unwrap();
        assert_eq!(text, r#"{"path":"a","mode":"0600"}"#);
        assert_eq!(serde_json::from_str::<PathBits>(&text).unwrap(), bits);
    }
}
