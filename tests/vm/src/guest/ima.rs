// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's IMA appraisal, as strict as it gets: by hashes in `security.ima`, because Debian's kernels have no keyring
//! for it that takes a key of one's own. A policy stays until the next boot.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use rustix::fs::XattrFlags;

/// Where a policy is written to.
pub(crate) const POLICY: &str = "/sys/kernel/security/ima/policy";

/// Labels each file with its SHA-256, given in hexadecimal digits.
pub(crate) fn label(digests: &[(PathBuf, String)]) -> Result<()> {
    for (path, sha256) in digests {
        let digits = |at| sha256.get(at..at + 2).context("a short digest");
        let digest = (0..64).step_by(2).map(|at| Ok(u8::from_str_radix(digits(at)?, 16)?));
        // A hash (type 4) by SHA-256 (number 4): include/uapi/linux/hash_info.h.
        let label = [4, 4].into_iter().map(Ok).chain(digest).collect::<Result<Vec<u8>>>()?;
        rustix::fs::setxattr(path, "security.ima", &label, XattrFlags::empty())
            .with_context(|| format!("{} cannot be labelled", path.display()))?;
    }
    Ok(())
}

/// Appraises what meets one of the `conditions`, at each of the hooks.
pub(crate) fn appraise(hooks: &[&str], conditions: &[String]) -> Result<()> {
    let rules: String = hooks
        .iter()
        .flat_map(|hook| conditions.iter().map(move |condition| format!("appraise func={hook} {condition}\n")))
        .collect();
    fs::write(POLICY, rules).context("the policy cannot be loaded")
}
