//! What a tree cannot store: `manifest.json` in a rescue's state commit. Users can read it with `git show
//! refs/sexton/rescue/<session>^2:manifest.json`.

use serde::{Deserialize, Serialize};
use sexton_core::{Host, OsText, SessionId};

/// The format that this version writes. Other formats are rejected.
pub(crate) const FORMAT: u32 = 1;

/// The manifest. It contains nothing that can change while the worktree does not, such as a time, so that the
/// same content gives the same manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// [`FORMAT`].
    pub(crate) format: u32,
    /// The session whose work it is.
    pub(crate) session: SessionId,
    /// The commit that was checked out; `None` for a branch without a commit.
    pub(crate) head: Option<String>,
    /// The full name of the branch that was checked out; `None` for a detached HEAD.
    pub(crate) branch: Option<OsText>,
    /// Whether the directory was missing, so that only git's own data could be saved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) directory_gone: bool,
    /// How many files differ from HEAD.
    pub(crate) changed: usize,
    /// Files whose bytes are saved as they were on disk, with their permission bits; no filter or conversion
    /// may be applied to them. A symlink has no permission bits.
    pub(crate) raw: Vec<PathBits>,
    /// Other files and directories with unusual permission bits.
    pub(crate) modes: Vec<PathBits>,
    /// Empty directories.
    pub(crate) empty_directories: Vec<OsText>,
    /// What is not in the rescue, and why.
    pub(crate) left_out: Vec<LeftOutPath>,
    /// The host that the worktree was on; `None` in rescues of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<Host>,
}

/// A path and its permission bits, in octal as `chmod` reads them.
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

    #[expect(clippy::ref_option, reason = "serde requires this signature")]
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
    /// Returns the manifest as it is stored.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("its keys are strings");
        bytes.push(b'\n');
        bytes
    }

    /// Reads a manifest; the error is the reason why this version cannot.
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
    fn manifest_of_another_format_is_rejected_whatever_else_it_contains() {
        let refusal = Manifest::parse(br#"{"format": 2, "raw": "something new"}"#).unwrap_err();
        assert_eq!(refusal, "its format is 2, and this version reads 1");
    }

    #[test]
    fn permission_bits_round_trip_in_octal() {
        let bits = PathBits { path: "a".into(), mode: Some(0o600) };
        let text = serde_json::to_string(&bits).unwrap();
        assert_eq!(text, r#"{"path":"a","mode":"0600"}"#);
        assert_eq!(serde_json::from_str::<PathBits>(&text).unwrap(), bits);
    }
}
