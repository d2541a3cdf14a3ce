// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why something is revoked: any text, written as one line in which nothing hides.

use std::fmt::{self, Write};

use super::RevocationError;

/// The longest reason as it is written, in bytes.
pub const MAX_REASON: usize = 1024;

/// A reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// Takes a text.
    ///
    /// # Errors
    /// It is empty, or too long when written.
    pub fn new(text: &str) -> Result<Self, RevocationError> {
        let length = escape(text).len();
        if length == 0 || length > MAX_REASON {
            return Err(RevocationError::Reason(length));
        }
        Ok(Self(text.to_owned()))
    }

    /// The text as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads what is written in a list; `None` if nothing is written so.
    pub(super) fn read(written: &str) -> Option<Self> {
        Self::new(&unescape(written)?).ok().filter(|reason| reason.to_string() == written)
    }
}

/// As it is written in a list, and can be shown on a terminal.
impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&escape(&self.0))
    }
}

fn escape(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for character in text.chars() {
        if character == '\\' {
            written.push_str("\\\\");
        } else if hides(character) {
            // Writing to a String cannot fail.
            let _ = write!(written, "\\u{{{:x}}}", u32::from(character));
        } else {
            written.push(character);
        }
    }
    written
}

/// What ends a line, steers a terminal, or makes text look as if it stood elsewhere.
fn hides(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn unescape(written: &str) -> Option<String> {
    let mut text = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('\\') {
            text.push('\\');
            rest = behind;
        } else {
            let (digits, behind) = rest.strip_prefix("u{")?.split_once('}')?;
            text.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
            rest = behind;
        }
    }
    text.push_str(rest);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_one_line_and_comes_back() {
        for (text, written) in [
            ("a back door, since 1.2", "a back door, since 1.2"),
            ("C:\\x", "C:\\\\x"),
            ("a\nfile b\t", "a\\u{a}file b\\u{9}"),
            ("\u{1b}[2J\u{202e}\u{2028}", "\\u{1b}[2J\\u{202e}\\u{2028}"),
            (" grün ", " grün "),
        ] {
            let reason = Reason::new(text).expect("a reason");
            assert_eq!(reason.to_string(), written);
            assert_eq!(Reason::read(written), Some(reason));
        }
    }

    #[test]
    fn there_is_one_way_to_write_it() {
        for written in
            ["", "\\", "\\n", "\\u{}", "\\u{a", "\\u{A}", "\\u{0a}", "\\u{61}", "\\u{d800}", "\\u{+a}", "a\tb"]
        {
            assert_eq!(Reason::read(written), None, "{written}");
        }
    }

    #[test]
    fn reasons_are_bounded() {
        assert_eq!(Reason::new(""), Err(RevocationError::Reason(0)));
        assert!(Reason::new(&"x".repeat(MAX_REASON)).is_ok());
        assert_eq!(Reason::new(&"\\".repeat(MAX_REASON / 2 + 1)), Err(RevocationError::Reason(MAX_REASON + 2)));
    }
}
