// SPDX-License-Identifier: Apache-2.0 OR MIT
//! fs-verity, the kernel's read-only files with a Merkle tree (`Documentation/filesystems/fsverity.rst`).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The digest of a sealed file: the hash of its fs-verity descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerityDigest {
    /// `FS_VERITY_HASH_ALG_*`: 1 is SHA-256, 2 is SHA-512.
    pub algorithm: u16,
    /// 32 or 64 bytes.
    pub bytes: Vec<u8>,
}

/// Room for the largest digest, SHA-512.
const MAX_DIGEST: usize = 64;

/// `struct fsverity_digest` with room behind it.
#[repr(C)]
struct MeasureArgument {
    algorithm: u16,
    size: u16,
    digest: [u8; MAX_DIGEST],
}

/// `FS_IOC_MEASURE_VERITY`, `_IOWR('f', 134, struct fsverity_digest)`; the header alone counts as its size.
const FS_IOC_MEASURE_VERITY: libc::c_ulong = 0xc004_6686;

/// Asks the kernel for the digest of a file; `None` if it is not sealed or its file system has no fs-verity.
///
/// # Errors
/// What the ioctl reports otherwise.
pub fn measure(file: impl AsFd) -> io::Result<Option<VerityDigest>> {
    let mut argument = MeasureArgument { algorithm: 0, size: MAX_DIGEST as u16, digest: [0; MAX_DIGEST] };
    // SAFETY: the argument has the layout the kernel expects and room for the `size` bytes it announces.
    let result = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), FS_IOC_MEASURE_VERITY, &raw mut argument) };
    if result == 0 {
        let size = usize::from(argument.size).min(MAX_DIGEST);
        return Ok(Some(VerityDigest { algorithm: argument.algorithm, bytes: argument.digest[..size].to_vec() }));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENODATA | libc::ENOTTY | libc::EOPNOTSUPP) => Ok(None),
        _ => Err(error),
    }
}

/// `struct fsverity_enable_arg`.
#[repr(C)]
struct EnableArgument {
    version: u32,
    hash_algorithm: u32,
    block_size: u32,
    salt_size: u32,
    salt: u64,
    signature_size: u32,
    reserved: u32,
    signature: u64,
    more: [u64; 11],
}

/// `FS_IOC_ENABLE_VERITY`, `_IOW('f', 133, struct fsverity_enable_arg)`.
const FS_IOC_ENABLE_VERITY: libc::c_ulong = 0x4080_6685;
const _: () = assert!(size_of::<EnableArgument>() == 128);
/// `FS_VERITY_HASH_ALG_SHA256`.
pub const SHA256: u16 = 1;
/// What all kernels and file systems take (Documentation/filesystems/fsverity.rst, "FS_IOC_ENABLE_VERITY").
const BLOCK_SIZE: u32 = 4096;

/// Seals a file for good, with SHA-256: from then on its content cannot be changed, and the kernel checks each page
/// that it reads. The file is open for reading, and nobody has it open for writing. A sealed file stays as it is.
///
/// # Errors
/// `EOPNOTSUPP` or `ENOTTY`: the file system has no fs-verity; `ETXTBSY`: somebody has the file open for writing.
pub fn enable(file: impl AsFd) -> io::Result<()> {
    let argument = EnableArgument {
        version: 1,
        hash_algorithm: u32::from(SHA256),
        block_size: BLOCK_SIZE,
        salt_size: 0,
        salt: 0,
        signature_size: 0,
        reserved: 0,
        signature: 0,
        more: [0; 11],
    };
    // SAFETY: the argument has the layout the kernel expects, and no pointers in it.
    let result = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), FS_IOC_ENABLE_VERITY, &raw const argument) };
    match io::Error::last_os_error() {
        _ if result == 0 => Ok(()),
        error if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_ordinary_file_has_no_digest() {
        let file = std::fs::File::open("/proc/self/exe").expect("open");
        assert_eq!(super::measure(file).expect("measure"), None);
    }
}
