// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys in PEM files.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;
use touchmark_sign::key::{KeyError, PrivateKey};
use touchmark_sys::secret::Secret;

use super::passphrase;
use crate::text::printable;

/// The largest key file that is read, in bytes; an RSA-4096 key has some 3,300.
const KEY_MAX: usize = 64 * 1024;

/// Reads a key; an encrypted one with the passphrase from the file, or typed.
pub(super) fn read(path: &Path, passphrase_file: Option<&Path>) -> anyhow::Result<PrivateKey> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mode = file.metadata().with_context(|| format!("cannot read {}", path.display()))?.permissions().mode();
    if mode & 0o044 != 0 {
        eprintln!(
            "touchmark: warning: others can read the key {}; make it yours alone: chmod 600 {0}",
            printable(path)
        );
    }
    let pem = Secret::read_from(file, KEY_MAX).with_context(|| format!("cannot read {}", path.display()))?;
    let given = passphrase_file.map(passphrase::from_file).transpose()?;
    let outcome = match PrivateKey::from_pem(&pem, given.as_deref()) {
        Err(KeyError::PassphraseNeeded) => {
            let prompt = format!("Passphrase for {}: ", printable(path));
            let typed = passphrase::ask(&prompt).context("cannot read the passphrase")?.with_context(|| {
                format!(
                    "the key {} is encrypted: expected --passphrase-file FILE, or a terminal to ask on",
                    path.display()
                )
            })?;
            PrivateKey::from_pem(&pem, Some(&typed))
        }
        outcome => outcome,
    };
    outcome.with_context(|| path.display().to_string())
}
