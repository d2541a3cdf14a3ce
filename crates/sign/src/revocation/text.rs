// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text that is signed: three lines of head, then one line an entry.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use der::DateTime;

use super::{MAX_ENTRIES, MAX_SIZE, Reason, RevocationError, RevocationList, Target};

const TITLE: &str = "touchmark revocation list 1";
/// How much of a wrong line an error shows, in characters.
const SHOWN: usize = 80;

/// The one text of a list.
pub(super) fn encode(list: &RevocationList) -> Result<String, RevocationError> {
    let too_large = |expected, unit, found| RevocationError::TooLarge { expected, unit, found };
    if list.entries.len() > MAX_ENTRIES {
        return Err(too_large(MAX_ENTRIES, "entries", list.entries.len()));
    }
    if list.version == 0 {
        return Err(RevocationError::Malformed { expected: "a version from 1", found: "0".to_owned() });
    }
    let issued = DateTime::from_unix_duration(Duration::from_secs(list.issued)).map_err(|_| {
        RevocationError::Malformed { expected: "a time before the year 10000", found: list.issued.to_string() }
    })?;
    let mut text = format!("{TITLE}\nversion {}\nissued {issued}\n", list.version);
    for (target, reason) in &list.entries {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{target} reason {reason}");
        if text.len() > MAX_SIZE {
            return Err(too_large(MAX_SIZE, "bytes", text.len()));
        }
    }
    Ok(text)
}

/// Reads what [`encode`] wrote.
pub(super) fn decode(text: &str) -> Result<RevocationList, RevocationError> {
    let mut lines = text.lines().zip(1..);
    let mut head = |expected, prefix: &str| -> Result<(&str, RevocationError), RevocationError> {
        let (line, number) = lines.next().unwrap_or(("", text.lines().count() + 1));
        let value = line.strip_prefix(prefix).ok_or_else(|| wrong(number, expected, line))?;
        Ok((value, wrong(number, expected, line)))
    };
    let (rest, error) = head("`touchmark revocation list 1`", TITLE)?;
    if !rest.is_empty() {
        return Err(error);
    }
    let (version, error) = head("`version` and a number from 1", "version ")?;
    let version = version.parse().map_err(|_| error)?;
    let (issued, error) = head("`issued` and a time such as 2026-01-31T12:00:00Z", "issued ")?;
    let issued = issued.parse::<DateTime>().map_err(|_| error)?.unix_duration().as_secs();

    let mut entries = BTreeMap::new();
    let mut last = None;
    for (line, number) in lines {
        if number - 3 > MAX_ENTRIES {
            return Err(RevocationError::TooLarge { expected: MAX_ENTRIES, unit: "entries", found: number - 3 });
        }
        let (target, reason) = entry(line).ok_or_else(|| {
            wrong(number, "certificate, file, fs-verity or signature, 64 digits, `reason` and a text", line)
        })?;
        if last >= Some(target) {
            return Err(wrong(number, "an entry that sorts behind the one before it", line));
        }
        last = Some(target);
        entries.insert(target, reason);
    }
    let list = RevocationList { version, issued, entries };
    // Other spellings of numbers, and other ends of lines.
    if encode(&list)? != text {
        return Err(RevocationError::Malformed {
            expected: "the one spelling of the list",
            found: "another".to_owned(),
        });
    }
    Ok(list)
}

fn entry(line: &str) -> Option<(Target, Reason)> {
    let (word, rest) = line.split_once(' ')?;
    let (id, rest) = rest.split_once(' ')?;
    Some((Target::by_word(word, id.parse().ok()?)?, Reason::read(rest.strip_prefix("reason ")?)?))
}

fn wrong(line: usize, expected: &'static str, found: &str) -> RevocationError {
    let found: String = found.chars().take(SHOWN).collect();
    RevocationError::Line { line, expected, found: found.escape_debug().to_string() }
}
