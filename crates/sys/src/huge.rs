// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Huge pages for memory that is about to be used.

use std::io;
use std::mem::MaybeUninit;

/// Asks for huge pages wherever a whole one lies in the range (`MADV_HUGEPAGE`).
///
/// # Errors
/// The kernel has no transparent huge pages.
pub fn advise(room: &mut [MaybeUninit<u8>]) -> io::Result<()> {
    let page = super::secret::page_size();
    let range = room.as_mut_ptr_range();
    let start = (range.start as usize).next_multiple_of(page);
    let length = (range.end as usize).saturating_sub(start) / page * page;
    if length == 0 {
        return Ok(());
    }
    let address = room.as_mut_ptr().wrapping_byte_add(start - range.start as usize);
    // SAFETY: whole pages within a range that is borrowed; the advice changes no byte.
    if unsafe { libc::madvise(address.cast(), length, libc::MADV_HUGEPAGE) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    #[test]
    fn a_range_of_any_size_and_place_is_taken() {
        let mut room: Vec<u8> = Vec::with_capacity(8 << 20);
        for range in [0..0, 1..2, 5..5000, 3..(8 << 20) - 7] {
            match super::advise(&mut room.spare_capacity_mut()[range.clone()]) {
                Ok(()) => {}
                // A kernel without huge pages says so.
                Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{range:?}"),
            }
        }
        room.spare_capacity_mut()[..100].fill(MaybeUninit::new(7));
    }
}
