// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes an archive in the format `newc`, which the kernel unpacks as its first root.
//! (Format: the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.)

use std::collections::BTreeSet;
use std::io::{self, Write};

/// File type and permissions of a folder.
const FOLDER: u32 = 0o040_755;
/// File type of a file; its permissions come on top.
const FILE: u32 = 0o100_000;

/// An archive under construction.
#[derive(Debug)]
pub struct Archive<W> {
    out: W,
    inode: u32,
    folders: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    /// Starts an archive.
    pub fn new(out: W) -> Self {
        Self { out, inode: 0, folders: BTreeSet::new() }
    }

    /// Adds a folder with those above it, unless they are there already. `path` is relative to the root.
    ///
    /// # Errors
    /// Writing fails.
    pub fn folder(&mut self, path: &str) -> io::Result<()> {
        let path = path.trim_matches('/');
        if path.is_empty() || self.folders.contains(path) {
            return Ok(());
        }
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent)?;
        }
        self.folders.insert(path.to_owned());
        self.entry(path, FOLDER, &[])
    }

    /// Adds a file and the folders above it. `permissions` are the lower nine bits of its mode.
    ///
    /// # Errors
    /// Writing fails, or the file has 4 GiB or more.
    pub fn file(&mut self, path: &str, permissions: u32, content: &[u8]) -> io::Result<()> {
        let path = path.trim_matches('/');
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent)?;
        }
        self.entry(path, FILE | permissions, content)
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// Writing fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let size = u32::try_from(content.len()).map_err(io::Error::other)?;
        let name_size = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
        self.inode += 1;
        // magic, ino, mode, uid, gid, nlink, mtime, size, device major and minor, rdevice major and minor, name, check
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        write!(self.out, "070701")?;
        for field in fields {
            write!(self.out, "{field:08x}")?;
        }
        self.out.write_all(name.as_bytes())?;
        self.pad(110 + name.len() + 1, 1)?;
        self.out.write_all(content)?;
        self.pad(content.len(), 0)
    }

    /// Writes `extra` zeros, and more up to a multiple of four.
    fn pad(&mut self, written: usize, extra: usize) -> io::Result<()> {
        let zeros = extra + written.next_multiple_of(4) - written;
        self.out.write_all(&[0; 4][..zeros])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_folders_come_first_once() {
        let mut archive = Archive::new(Vec::new());
        archive.file("/a/b/one", 0o755, b"12345").expect("memory");
        archive.file("a/b/two", 0o644, b"").expect("memory");
        let bytes = archive.finish().expect("memory");
        assert_eq!(bytes.len() % 4, 0);
        let names: Vec<usize> =
            bytes.windows(6).enumerate().filter(|(_, window)| window == b"070701").map(|(at, _)| at).collect();
        assert!(names.iter().all(|at| at % 4 == 0));
        assert_eq!(names.len(), 5, "a, a/b, one, two, trailer");
    }
}
