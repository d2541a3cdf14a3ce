// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Passphrases and PINs: from a file, or typed.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use anyhow::Context;
use touchmark_sys::secret::Secret;

/// The longest passphrase file that is read, in bytes.
const FILE_MAX: usize = 64 * 1024;

/// The first line of a file, without its end.
pub(crate) fn from_file(path: &Path) -> anyhow::Result<Secret> {
    let read = || format!("cannot read {}", path.display());
    // A device that never ends, such as a FIFO, gives its first line all the same.
    let file = File::open(path).with_context(read)?;
    let mut line = Secret::read_from(FirstLine { file, ended: false }, FILE_MAX).with_context(read)?;
    let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
    line.truncate(end);
    if line.ends_with(b"\r") {
        line.truncate(end - 1);
    }
    if line.is_empty() {
        anyhow::bail!("expected a passphrase in the first line of {}, found none", path.display());
    }
    Ok(line)
}

/// Asks for it on the terminal; `None` if there is nobody to ask.
pub(super) fn ask(prompt: &str) -> anyhow::Result<Option<Secret>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    Ok(Some(Secret::from_string(rpassword::prompt_password(prompt)?)?))
}

/// Reads no further than the piece that has the end of the first line.
struct FirstLine {
    file: File,
    ended: bool,
}

impl Read for FirstLine {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        let read = self.file.read(buffer)?;
        self.ended = buffer[..read].contains(&b'\n');
        Ok(read)
    }
}
