// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which shared libraries a program needs, so that it can be carried to a place without any.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::command;

/// The libraries and the loader of a program, as absolute paths on this machine. Run on our own programs only: `ldd`
/// trusts what it looks at.
///
/// # Errors
/// `ldd` fails, or a library is missing.
pub fn of(program: &Path) -> Result<BTreeSet<PathBuf>> {
    let output = command::output(Command::new("ldd").arg(program).env("LC_ALL", "C"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if text.contains("statically linked") || text.contains("not a dynamic executable") {
        return Ok(BTreeSet::new());
    }
    parse(&text).map_or_else(|missing| bail!("{} needs {missing}, which is not installed", program.display()), Ok)
}

/// Reads lines `NAME => PATH (ADDRESS)` and `PATH (ADDRESS)`; the error is the first library that is not found.
fn parse(text: &str) -> Result<BTreeSet<PathBuf>, String> {
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if line.contains("not found") {
            return Err(line.split_whitespace().next().unwrap_or_default().to_owned());
        }
        let path = line.split(" => ").last().unwrap_or(line).split_whitespace().next().unwrap_or_default();
        if path.starts_with('/') {
            found.insert(PathBuf::from(path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_ldd_prints() {
        let text =
            "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld-linux-x86-64.so.2 (0x3)\n";
        let expected = ["/lib/x/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(parse(text), Ok(BTreeSet::from(expected)));
        assert_eq!(parse("\tlibnot.so => not found\n"), Err("libnot.so".to_owned()));
    }
}
