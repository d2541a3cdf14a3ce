// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mappings whose memory is never touched through them (`mmap(2)`): what tests and benchmarks of the mmap hook need.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr::NonNull;

/// What a mapping allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Private, to be read: `PROT_READ`.
    Read,
    /// Private, to be executed: `PROT_READ | PROT_EXEC`, as a library is mapped.
    Execute,
    /// Shared, to be written: `PROT_READ | PROT_WRITE`.
    SharedWrite,
}

/// A mapping, taken away when this is dropped. There is no way to its memory, so what becomes of the file is harmless.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<libc::c_void>,
    length: usize,
}

impl Mapping {
    /// Maps the first `length` bytes of a file.
    ///
    /// # Errors
    /// What `mmap` reports: `EPERM` when a security module refuses, `EINVAL` for a length of 0.
    pub fn new(file: impl AsFd, length: usize, access: Access) -> io::Result<Self> {
        Self::map(file.as_fd().as_raw_fd(), length, access, 0)
    }

    /// Maps fresh memory that belongs to no file.
    ///
    /// # Errors
    /// As for [`Mapping::new`].
    pub fn anonymous(length: usize, access: Access) -> io::Result<Self> {
        Self::map(-1, length, access, libc::MAP_ANONYMOUS)
    }

    fn map(descriptor: RawFd, length: usize, access: Access, anonymous: libc::c_int) -> io::Result<Self> {
        let (protection, flags) = match access {
            Access::Read => (libc::PROT_READ, libc::MAP_PRIVATE),
            Access::Execute => (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE),
            Access::SharedWrite => (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED),
        };
        let flags = flags | anonymous;
        // SAFETY: without MAP_FIXED the kernel chooses a range that nothing else uses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, descriptor, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start).ok_or_else(|| io::Error::other("mmap returned the address 0"))?;
        Ok(Self { start, length })
    }

    /// Makes a private mapping executable afterwards (`mprotect(2)`).
    ///
    /// # Errors
    /// What `mprotect` reports.
    pub fn make_executable(&self) -> io::Result<()> {
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: the range is a mapping of ours, and nobody holds a reference into it.
        let result = unsafe { libc::mprotect(self.start.as_ptr(), self.length, protection) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is a mapping of ours, and nobody holds a reference into it.
        unsafe { libc::munmap(self.start.as_ptr(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_no_file_can_be_mapped() {
        drop(Mapping::anonymous(4096, Access::SharedWrite).expect("map"));
        Mapping::anonymous(4096, Access::Read).expect("map").make_executable().expect("protect");
        assert!(Mapping::anonymous(0, Access::Read).is_err(), "no length");
    }

    #[test]
    fn a_program_can_be_mapped_and_made_executable() {
        let file = std::fs::File::open("/proc/self/exe").expect("open");
        drop(Mapping::new(&file, 4096, Access::Execute).expect("map"));
        Mapping::new(&file, 4096, Access::Read).expect("map").make_executable().expect("protect");
        assert_eq!(Mapping::new(&file, 0, Access::Read).expect_err("no length").raw_os_error(), Some(libc::EINVAL));
        assert!(Mapping::new(&file, 4096, Access::SharedWrite).is_err(), "it was opened for reading");
    }
}
