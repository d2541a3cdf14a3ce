// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the daemon does with a file that is about to be executed.

use std::os::fd::BorrowedFd;

use touchmark_enforce::Enforcement;
use touchmark_enforce::admission::Look;

use crate::authority::Authority;
use crate::files;

/// Approves the file's digest if a trusted signature is embedded in it. Whatever fails, the kernel decides.
pub(super) fn look(file: BorrowedFd<'_>, authority: &Authority, enforcement: &Enforcement) -> Look {
    match files::check_embedded(file, authority) {
        Ok(Some(approval)) => match enforcement.approve(&approval) {
            Ok(()) => Look::Once,
            Err(error) => {
                eprintln!("touchmarkd: {error}");
                Look::Again
            }
        },
        // Unsigned, revoked, or signed by nobody we trust: the same until the file, the certificates or the list change.
        Ok(None) => Look::Once,
        Err(_) => Look::Again,
    }
}
