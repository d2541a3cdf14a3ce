// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seals a signed file with fs-verity and signs the digest that the kernel then vouches for: such a file is decided
//! without being read, and cannot be changed any more, only replaced.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use touchmark_sign::certificate::Certificate;
use touchmark_sign::cms;
use touchmark_sign::digest::Digest;
use touchmark_sign::key::Signer;
use touchmark_sign::statement::{Kind, Statement};
use touchmark_sys::fsverity;

use super::container::{Container, read_attribute, write_attribute};
use super::edit::{EditError, Edited};
use super::identity::Opened;

/// How files are sealed.
pub(crate) struct Sealer<'a> {
    /// The key.
    pub(crate) signer: &'a dyn Signer,
    /// Its certificate.
    pub(crate) certificate: &'a Certificate,
}

impl Sealer<'_> {
    /// Seals a file that was signed in its attribute; others are left alone. Interrupted half-way, the file is sealed
    /// and its first signature still holds.
    pub(crate) fn seal(&self, opened: &Opened) -> Edited {
        Edited::by(opened.size(), |edited| {
            if read_attribute(&opened.file).map_err(EditError::Attribute)?.is_none() {
                return Ok(());
            }
            fsverity::enable(&opened.file).map_err(|error| EditError::Seal(explain(error)))?;
            let digest = sealed_digest(&opened.file).map_err(EditError::Seal)?;
            let digest =
                digest.ok_or_else(|| EditError::Seal(io::Error::other("the kernel gives no SHA-256 of it")))?;
            let der = cms::sign(&Statement::new(Kind::FsVerity, digest), self.signer, self.certificate)?;
            write_attribute(&opened.file, &der).map_err(EditError::Attribute)?;
            edited.containers.push(Container::Xattr);
            edited.touched = opened.file.try_clone().ok();
            Ok(())
        })
    }
}

/// The SHA-256 fs-verity digest; `None` if the file is not sealed, or with another algorithm.
pub(crate) fn sealed_digest(file: impl AsFd) -> io::Result<Option<Digest>> {
    let measured = fsverity::measure(file)?.filter(|measured| measured.algorithm == fsverity::SHA256);
    Ok(measured.and_then(|measured| <[u8; 32]>::try_from(measured.bytes).ok()).map(Digest::from))
}

fn explain(error: io::Error) -> io::Error {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::OPNOTSUPP | Errno::NOTTY) => io::Error::other(
            "the file system has no fs-verity (ext4 gets it by `tune2fs -O verity DEVICE`; btrfs has it from 5.15 on)",
        ),
        Some(Errno::TXTBSY) => io::Error::other("somebody has it open for writing"),
        _ => error,
    }
}
