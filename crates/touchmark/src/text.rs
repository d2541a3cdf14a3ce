// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of any bytes, shown to people and written as JSON.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A path in JSON: text, and the exact bytes where the text cannot hold them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PathText {
    /// What is not UTF-8 is replaced by U+FFFD.
    pub(crate) path: String,
    /// Lowercase hex of the path's bytes, if `path` is not exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path_bytes: Option<String>,
}

impl PathText {
    pub(crate) fn new(path: &Path) -> Self {
        let text = path.to_string_lossy();
        let exact = path.to_str().is_some();
        Self { path: text.into_owned(), path_bytes: (!exact).then(|| hex(path.as_os_str().as_bytes())) }
    }
}

/// For a terminal: control characters and bytes that are no UTF-8 are escaped, so that no name can forge a line.
pub(crate) fn printable(name: impl AsRef<OsStr>) -> String {
    let mut text = String::new();
    for chunk in name.as_ref().as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_forges_a_line() {
        assert_eq!(printable("a b/ü"), "a b/ü");
        assert_eq!(printable("a\nb\x1b[2J"), "a\\nb\\u{1b}[2J");
        assert_eq!(printable(OsStr::from_bytes(b"x\xff\xfey")), "x\\xff\\xfey");
    }

    #[test]
    fn paths_keep_their_bytes() {
        assert_eq!(PathText::new(Path::new("/a")).path_bytes, None);
        let odd = PathText::new(Path::new(OsStr::from_bytes(b"/\xff")));
        assert_eq!(odd.path, "/\u{fffd}");
        assert_eq!(odd.path_bytes.as_deref(), Some("2fff"));
    }
}
