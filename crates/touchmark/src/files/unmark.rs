// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes the signatures off one file. What the embedded one changed is put back byte for byte.

use std::io;
use std::os::fd::AsFd;

use touchmark_sign::cms::SignatureInfo;
use touchmark_sign::elf::embedded::Embedded;
use touchmark_sign::elf::is_elf;

use super::container::{Container, detached_place, read_attribute, read_detached, remove_attribute};
use super::edit::{EditError, Edited};
use super::identity::Opened;
use super::place::Place;
use super::replace::{Change, Draft, remove};
use super::scan::{ScanError, Source, read_some};
use crate::stop::Stop;

/// How signatures are taken off.
pub(crate) struct Unmarker<'a> {
    /// Where from; empty: everywhere.
    pub(crate) containers: &'a [Container],
    /// Only find out what would be done.
    pub(crate) dry_run: bool,
    /// When to stop.
    pub(crate) stop: &'a Stop,
}

impl Unmarker<'_> {
    /// Takes the signatures off a file of which these are all the names that were found.
    pub(crate) fn unmark(&self, opened: &Opened, places: &[Place], buffer: &mut [u8]) -> Edited {
        Edited::by(opened.size(), |edited| self.try_unmark(opened, places, buffer, edited))
    }

    fn try_unmark(
        &self,
        opened: &Opened,
        places: &[Place],
        buffer: &mut [u8],
        edited: &mut Edited,
    ) -> Result<(), EditError> {
        if self.wants(Container::Embedded) {
            match self.restore(opened, places, buffer, edited) {
                // Whatever else there is speaks of the signed content.
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => edited.failures.push((Some(Container::Embedded), error)),
            }
        }
        if self.wants(Container::Xattr) {
            let outcome = if self.dry_run {
                read_attribute(&opened.file).map(|found| found.is_some())
            } else {
                remove_attribute(&opened.file)
            };
            match outcome {
                Ok(true) => {
                    edited.containers.push(Container::Xattr);
                    edited.touched = Some(opened.file.try_clone().map_err(ScanError::Open)?);
                }
                Ok(false) => {}
                Err(error) => edited.failures.push((Some(Container::Xattr), EditError::Attribute(error))),
            }
        }
        if self.wants(Container::Detached) {
            self.remove_detached(places, edited);
        }
        Ok(())
    }

    fn wants(&self, container: Container) -> bool {
        self.containers.is_empty() || self.containers.contains(&container)
    }

    /// Makes the file as it was before a signature was embedded; says whether there was one.
    fn restore(
        &self,
        opened: &Opened,
        places: &[Place],
        buffer: &mut [u8],
        edited: &mut Edited,
    ) -> Result<bool, EditError> {
        let Some(first) = places.first() else { return Ok(false) };
        let read = read_some(opened.file.as_fd(), &mut buffer[..4096], 0, opened.size()).map_err(ScanError::Read)?;
        let head = buffer.get(..read).unwrap_or_default().to_vec();
        if !is_elf(&head) {
            return Ok(false);
        }
        let source = Source::new(opened.file.as_fd(), opened.size(), &head).map_err(ScanError::Read)?;
        let Some(embedded) = Embedded::find(&source, opened.size())? else { return Ok(false) };
        if let Some(reason) = opened.pinned() {
            return Err(EditError::Pinned(reason));
        }
        match opened.links().saturating_sub(places.len() as u64) {
            0 => {}
            elsewhere => return Err(EditError::LinkedElsewhere(elsewhere)),
        }
        edited.containers.push(Container::Embedded);
        if read_attribute(&opened.file).is_ok_and(|found| found.is_some()) {
            edited.containers.push(Container::Xattr);
        }
        if places.iter().any(|place| read_detached(place).is_ok_and(|found| found.is_some())) {
            edited.containers.push(Container::Detached);
        }
        if self.dry_run {
            return Ok(true);
        }
        let mut draft = Draft::begin(opened, first)?;
        draft.copy(embedded.original_len, &embedded.restore, buffer, self.stop, |_| {})?;
        let (content, _) = draft.finish(None)?;
        edited.change =
            Some(Change { places: places.to_vec(), content: Some(content), detached: Vec::new(), drop_detached: true });
        Ok(true)
    }

    fn remove_detached(&self, places: &[Place], edited: &mut Edited) {
        for place in places {
            let outcome = read_detached(place).and_then(|found| match found {
                None => Ok(false),
                // Someone's file that only has the name is not ours to remove.
                Some(der) if SignatureInfo::parse(&der).is_err() => Err(io::Error::other(
                    "expected a signature in the file beside it, found something else; left alone",
                )),
                Some(_) if self.dry_run => Ok(true),
                Some(_) => remove(&detached_place(place)),
            });
            match outcome {
                Ok(true) if edited.containers.contains(&Container::Detached) => {}
                Ok(true) => edited.containers.push(Container::Detached),
                Ok(false) => {}
                Err(error) => edited.failures.push((Some(Container::Detached), EditError::Detached(error))),
            }
        }
    }
}
