// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The signatures that a file has, with the statements they must be of.

use std::os::fd::AsFd;
use std::path::Path;

use touchmark_sign::digest::Digest;
use touchmark_sign::statement::{Kind, Statement};

use super::container::{Container, read_attribute, read_detached};
use super::identity::Opened;
use super::place::Place;
use super::scan::{BUFFER, EmbeddedScan, ScanError, scan};
use crate::stop::Stop;

/// One signature, unchecked.
pub(crate) struct Signature {
    /// As it is stored.
    pub(crate) der: Vec<u8>,
    /// What it signs, if the file is as it was.
    pub(crate) statement: Statement,
    /// How many bytes of the file the digest is over, from its start.
    pub(crate) covered: u64,
}

/// All signatures of one file.
pub(crate) struct Signatures {
    /// The file's size in bytes.
    pub(crate) size: u64,
    /// The digest of the whole file.
    pub(crate) whole: Digest,
    /// Each container that is there, or why it cannot be read.
    pub(crate) all: Vec<(Container, Result<Signature, String>)>,
}

impl Signatures {
    /// Reads the file and what is beside it. A symbolic link stands for what it points to.
    pub(crate) fn read(path: &Path) -> Result<Self, ScanError> {
        let place = Place::resolve(path).map_err(ScanError::Open)?;
        let opened = Opened::open(&place).map_err(ScanError::Open)?;
        let size = opened.size();
        let scan = scan(opened.file.as_fd(), size, &mut vec![0; BUFFER], &Stop::default())?;
        let mut all = Vec::new();
        match scan.embedded {
            Ok(None) => {}
            Ok(Some(EmbeddedScan { covered, der, content })) => {
                let statement = Statement::new(Kind::ElfContent, content);
                all.push((Container::Embedded, Ok(Signature { der, statement, covered })));
            }
            Err(error) => all.push((Container::Embedded, Err(error.to_string()))),
        }
        let others = [(Container::Xattr, read_attribute(&opened.file)), (Container::Detached, read_detached(&place))];
        for (container, outcome) in others {
            let statement = Statement::new(Kind::File, scan.whole);
            match outcome {
                Ok(None) => {}
                Ok(Some(der)) => all.push((container, Ok(Signature { der, statement, covered: size }))),
                Err(error) => all.push((container, Err(error.to_string()))),
            }
        }
        Ok(Self { size, whole: scan.whole, all })
    }
}
