// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A signed program with each of its bytes changed in turn.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};

use anyhow::{Context, Result, ensure};

use crate::site::{Site, admit, event, kernel_verifies, reason_for_changed, refused, runs, status, writable};
use crate::tiny;
use crate::trial::{Trial, trial};

pub(crate) const TRIALS: &[Trial] = &[trial("s2_every_byte_flipped", &[], s2_every_byte_flipped).seconds(300)];

fn s2_every_byte_flipped() -> Result<()> {
    let bytes = tiny::program(0);
    let site = Site::new()?;
    let program = site.path("tiny");
    fs::write(&program, &bytes)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    site.sign(&program)?;
    site.enforce(&[])?;
    runs(&program)?;
    for (at, byte) in bytes.iter().enumerate() {
        let write = |byte: u8| -> Result<()> {
            let file = writable(&program, fs::File::options().write(true))?;
            Ok(file.write_all_at(&[byte], u64::try_from(at)?)?)
        };
        write(!byte)?;
        refused(&program).with_context(|| format!("byte {at}"))?;
        write(*byte)?;
    }
    event(&program, reason_for_changed())?;
    // What it was before is what was signed.
    if !kernel_verifies() {
        admit(&program)?;
    }
    runs(&program)?;
    let denied = status()?["denied"][reason_for_changed()].as_u64();
    ensure!(denied >= Some(bytes.len() as u64), "expected {} refusals, found {denied:?}", bytes.len());
    Ok(())
}
