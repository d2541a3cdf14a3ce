// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether this process is a forked child of the one that made the secrets.
//!
//! The process id would not tell in a new PID namespace; a page that the kernel wipes at a fork does.

use std::ptr::NonNull;
use std::sync::OnceLock;

/// A page that holds a 1, and in a child a 0.
struct Marker(NonNull<u8>);

// SAFETY: the page is written once, before it is shared, and never given back.
unsafe impl Send for Marker {}
// SAFETY: as above.
unsafe impl Sync for Marker {}

static MARKER: OnceLock<Option<Marker>> = OnceLock::new();

/// Makes sure that a child can be told from now on.
pub(super) fn mark() {
    MARKER.get_or_init(Marker::new);
}

/// Whether this is a forked child. Where the page could not be had the answer is no.
pub(super) fn is_child() -> bool {
    let Some(Some(Marker(page))) = MARKER.get() else { return false };
    // SAFETY: the page is mapped for as long as the process lives.
    unsafe { page.read_volatile() == 0 }
}

impl Marker {
    fn new() -> Option<Self> {
        let size = super::region::page_size();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: without MAP_FIXED the kernel chooses a range that nothing else uses.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0) };
        if page == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the page is ours.
        if unsafe { libc::madvise(page, size, libc::MADV_WIPEONFORK) } != 0 {
            // SAFETY: the page is ours, and nobody refers to it.
            unsafe { libc::munmap(page, size) };
            return None;
        }
        let page = NonNull::new(page.cast::<u8>())?;
        // SAFETY: the page is ours and writable.
        unsafe { page.write_volatile(1) };
        Some(Self(page))
    }
}
