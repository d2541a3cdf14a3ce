// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages for secrets: not swapped, not dumped, gone after a fork, with a guard page on each side.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use zeroize::Zeroize;

use super::error::SecretError;
use super::fork;

/// What kind of memory holds a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `memfd_secret(2)`: taken out of the kernel's own map, so that neither another process nor most of the kernel can
    /// read it. While there is any, the machine cannot hibernate.
    Hidden,
    /// Anonymous memory, locked (`mlock(2)`): not in swap. Who may trace the process can read it.
    Locked,
    /// Anonymous memory that may be swapped, for where nothing can be locked.
    Unlocked,
}

/// Readable and writable pages between two that are neither.
#[derive(Debug)]
pub(super) struct Region {
    /// The first usable byte.
    start: NonNull<u8>,
    /// Usable bytes, a multiple of the page size.
    length: usize,
    kind: Kind,
}

// SAFETY: a region owns its pages; nothing about them belongs to a thread.
unsafe impl Send for Region {}

impl Region {
    /// Maps `length` bytes, rounded up to pages.
    pub(super) fn new(kind: Kind, length: usize) -> Result<Self, SecretError> {
        fork::mark();
        let page = page_size();
        let length = length.max(1).next_multiple_of(page);
        let failed = |call| SecretError::of_call(call, length);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: without MAP_FIXED the kernel chooses a range that nothing else uses.
        let whole = unsafe { libc::mmap(std::ptr::null_mut(), length + 2 * page, libc::PROT_NONE, flags, -1, 0) };
        if whole == libc::MAP_FAILED {
            return Err(failed("mmap"));
        }
        let start = whole.wrapping_byte_add(page).cast::<u8>();
        let Some(start) = NonNull::new(start) else { return Err(failed("mmap")) };
        // From here on the range is given back whatever happens.
        let region = Self { start, length, kind };
        match kind {
            Kind::Hidden => region.hide().map_err(failed)?,
            Kind::Locked | Kind::Unlocked => region.open().map_err(failed)?,
        }
        Ok(region)
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn contains(&self, address: NonNull<u8>) -> bool {
        let first = self.start.as_ptr() as usize;
        (first..first + self.length).contains(&(address.as_ptr() as usize))
    }

    /// Puts pages of a secret file into the middle. A shared mapping cannot be wiped in a child: it does not get it.
    fn hide(&self) -> Result<(), &'static str> {
        // SAFETY: the call takes a number.
        let descriptor = unsafe { libc::syscall(libc::SYS_memfd_secret, libc::O_CLOEXEC) };
        let descriptor = i32::try_from(descriptor).ok().filter(|number| *number >= 0).ok_or("memfd_secret")?;
        // SAFETY: the kernel just gave us this descriptor; nobody else has it.
        let file = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let length = libc::off_t::try_from(self.length).map_err(|_| "ftruncate")?;
        // SAFETY: the call takes numbers.
        if unsafe { libc::ftruncate(file.as_raw_fd(), length) } != 0 {
            return Err("ftruncate");
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: the range is ours, and nobody holds a reference into it.
        let mapped = unsafe { libc::mmap(self.address(), self.length, protection, flags, file.as_raw_fd(), 0) };
        if mapped == libc::MAP_FAILED {
            return Err("mmap");
        }
        // The kernel already leaves such memory out of dumps, and locks it.
        self.advise(libc::MADV_DONTFORK).map_err(|()| "madvise(MADV_DONTFORK)")?;
        self.populate()
    }

    /// Opens the anonymous pages in the middle.
    fn open(&self) -> Result<(), &'static str> {
        // SAFETY: the range is ours, and nobody holds a reference into it.
        if unsafe { libc::mprotect(self.address(), self.length, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return Err("mprotect");
        }
        self.advise(libc::MADV_DONTDUMP).map_err(|()| "madvise(MADV_DONTDUMP)")?;
        self.advise(libc::MADV_WIPEONFORK).map_err(|()| "madvise(MADV_WIPEONFORK)")?;
        // Kernels without page merging refuse this, and have nothing to refuse.
        let _ = self.advise(libc::MADV_UNMERGEABLE);
        if self.kind == Kind::Unlocked {
            return Ok(());
        }
        // SAFETY: the range is ours; locking changes no byte.
        if unsafe { libc::mlock(self.address(), self.length) } == 0 { Ok(()) } else { Err("mlock") }
    }

    /// Touches each page: a want of memory shows here, as an error, and not as a signal at the first use.
    fn populate(&self) -> Result<(), &'static str> {
        /// `MADV_POPULATE_WRITE` (Linux 5.14, as is `memfd_secret`).
        const MADV_POPULATE_WRITE: libc::c_int = 23;
        match self.advise(MADV_POPULATE_WRITE) {
            Ok(()) => Ok(()),
            // Kernels that refuse to populate this kind of mapping fault it in at the first use.
            Err(()) => match std::io::Error::last_os_error().raw_os_error() {
                Some(libc::ENOMEM | libc::EHWPOISON) => Err("madvise(MADV_POPULATE_WRITE)"),
                _ => Ok(()),
            },
        }
    }

    fn advise(&self, advice: libc::c_int) -> Result<(), ()> {
        // SAFETY: the range is ours; none of the advice used here changes its content in this process.
        if unsafe { libc::madvise(self.address(), self.length, advice) } == 0 { Ok(()) } else { Err(()) }
    }

    fn address(&self) -> *mut libc::c_void {
        self.start.as_ptr().cast()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // A child has no hidden pages, and something else may lie where they were.
        if fork::is_child() {
            return;
        }
        let page = page_size();
        // SAFETY: the whole range, guards included, is ours, and no secret is left in it.
        unsafe { libc::munmap(self.address().wrapping_byte_sub(page), self.length + 2 * page) };
    }
}

/// Overwrites memory with zeros in a way that the compiler keeps.
///
/// # Safety
/// `length` bytes at `start` are writable, and nobody else uses them.
pub(super) unsafe fn wipe(start: NonNull<u8>, length: usize) {
    // SAFETY: as promised by the caller.
    unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), length) }.zeroize();
}

pub(crate) fn page_size() -> usize {
    // SAFETY: the call takes a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}
