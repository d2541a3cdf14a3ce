// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Room for many secrets in few mappings.
//!
//! Each mapping of its own would cost three entries of the process's 65,530, and a page of the locked memory it may
//! have. So small secrets share pages, in slots of one size; a large one gets a region for itself.

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::error::SecretError;
use super::fork;
use super::region::{Kind, Region, page_size, wipe};

/// Slot sizes in bytes, and how many share a region: passphrases, and keys in PEM.
const CLASSES: [(usize, usize); 2] = [(256, 16), (4096, 4)];

/// Memory for one secret.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) start: NonNull<u8>,
    /// In bytes.
    pub(super) size: usize,
    kind: Kind,
}

// SAFETY: a slot is memory that nobody else uses; nothing about it belongs to a thread.
unsafe impl Send for Slot {}
// SAFETY: a slot is only written through an exclusive reference.
unsafe impl Sync for Slot {}

/// A region cut into slots of one size.
#[derive(Debug)]
struct Slab {
    region: Region,
    slot: usize,
    taken: Vec<bool>,
}

static SLABS: Mutex<Vec<Slab>> = Mutex::new(Vec::new());

impl Slot {
    /// Finds `size` bytes, all zero.
    pub(super) fn take(kind: Kind, size: usize) -> Result<Self, SecretError> {
        let (slot, count) = CLASSES
            .into_iter()
            .find(|(slot, _)| size <= *slot)
            .unwrap_or_else(|| (size.next_multiple_of(page_size()), 1));
        let mut slabs = slabs();
        let fits = |slab: &&mut Slab| slab.slot == slot && slab.region.kind() == kind && slab.has_room();
        if let Some(slab) = slabs.iter_mut().find(fits) {
            return Ok(slab.take());
        }
        let region = Region::new(kind, slot * count)?;
        let mut slab = Slab { taken: vec![false; region.length() / slot], slot, region };
        let taken = slab.take();
        slabs.push(slab);
        Ok(taken)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // In a child hidden memory is not there, and the rest is zero already.
        if fork::is_child() {
            return;
        }
        // SAFETY: the slot is ours alone until it is given back below.
        unsafe { wipe(self.start, self.size) };
        let mut slabs = slabs();
        let Some(index) = slabs.iter().position(|slab| slab.region.contains(self.start)) else { return };
        slabs[index].give_back(self.start);
        // One empty slab of a class is kept, so that a secret now and then does not map and unmap each time. A hidden
        // one is not: it would keep the machine from hibernating for nothing. Nor is a large one.
        let empty = |slab: &Slab| slab.taken.iter().all(|taken| !taken);
        let another = || {
            let same = |other: &Slab| other.slot == slabs[index].slot && other.region.kind() == self.kind;
            slabs.iter().enumerate().any(|(at, other)| at != index && same(other) && empty(other))
        };
        let keep = self.kind != Kind::Hidden && slabs[index].taken.len() > 1 && !another();
        if empty(&slabs[index]) && !keep {
            slabs.swap_remove(index);
        }
    }
}

impl Slab {
    fn has_room(&self) -> bool {
        self.taken.contains(&false)
    }

    /// The first free slot; the caller has looked that there is one.
    fn take(&mut self) -> Slot {
        let index = self.taken.iter().position(|taken| !taken).unwrap_or(0);
        self.taken[index] = true;
        // SAFETY: `taken` has as many entries as slots fit into the region.
        let start = unsafe { self.region.start().add(index * self.slot) };
        Slot { start, size: self.slot, kind: self.region.kind() }
    }

    fn give_back(&mut self, start: NonNull<u8>) {
        let offset = start.as_ptr() as usize - self.region.start().as_ptr() as usize;
        self.taken[offset / self.slot] = false;
    }
}

/// A panic while the lock was held leaves the list as it was: each change is one step.
fn slabs() -> MutexGuard<'static, Vec<Slab>> {
    SLABS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(super) fn regions() -> usize {
    slabs().len()
}
