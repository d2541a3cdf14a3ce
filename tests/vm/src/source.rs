// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sources of others' programs, as their authors published them, from Debian's source packages.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::apt::Apt;
use crate::cache::{self, FetchLock, Scratch};
use crate::command;

/// Where the packages come from: a suite that no longer changes, so that all machines get the same.
const SUITE: &str = "trixie";

/// The folder of an unpacked source package: from the cache, or fetched when it is not there. Never write to it.
///
/// # Errors
/// It cannot be fetched or unpacked.
pub fn source(package: &str) -> Result<PathBuf> {
    let place = cache::root()?.join("sources").join(format!("{SUITE}-{package}"));
    if place.exists() {
        return Ok(place);
    }
    let _lock = FetchLock::acquire()?;
    if !place.exists() {
        let scratch = Scratch::new()?;
        let archive = Apt::open_sources(&[SUITE])?
            .upstream(package, scratch.path())
            .with_context(|| format!("the sources of {package} could not be fetched"))?;
        let made = scratch.path().join("source");
        fs::create_dir(&made)?;
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--no-same-owner", "--strip-components=1", "--file"]).arg(archive).arg("-C").arg(&made);
        command::run(&mut tar)?;
        cache::publish(&made, &place)?;
    }
    Ok(place)
}
