// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Passphrases and PINs: from a file, or typed.

use std::io::{self, IsTerminal};
use std::path::Path;

use anyhow::Context;
use zeroize::Zeroizing;

/// The first line of a file, without its end.
pub(crate) fn from_file(path: &Path) -> anyhow::Result<Zeroizing<Vec<u8>>> {
    let text = Zeroizing::new(std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?);
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        anyhow::bail!("expected a passphrase in the first line of {}, found none", path.display());
    }
    Ok(Zeroizing::new(line.to_vec()))
}

/// Asks for it on the terminal; `None` if there is nobody to ask.
pub(super) fn ask(prompt: &str) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    let typed = Zeroizing::new(rpassword::prompt_password(prompt)?);
    Ok(Some(Zeroizing::new(typed.as_bytes().to_vec())))
}
