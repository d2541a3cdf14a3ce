// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernel modules that their distributor signed. The kernel looks for that signature at the very end of the file, so
//! nothing may be put behind it.

use std::io;

use touchmark_sign::elf::{ReadAt, is_elf};

use super::scan::Source;

/// How such a file ends (include/linux/module_signature.h, MODULE_SIG_STRING).
const MARKER: &[u8] = b"~Module signature appended~\n";

/// Whether an ELF file of `size` bytes carries the kernel's own signature at its end.
pub(super) fn is_signed(source: &Source<'_>, size: u64) -> io::Result<bool> {
    let Some(at) = size.checked_sub(MARKER.len() as u64).filter(|_| is_elf(source.head)) else { return Ok(false) };
    let mut end = [0; MARKER.len()];
    source.read_exact_at(&mut end, at)?;
    Ok(end == MARKER)
}
