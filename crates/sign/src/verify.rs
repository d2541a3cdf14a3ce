// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The digests of a file in one pass: of the whole, and of the part that an embedded signature covers.

use crate::digest::{Digest, Hasher};

/// A file's digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileDigests {
    /// Of the whole file, as the kernel computes it.
    pub whole: Digest,
    /// Of the covered part, if there is one.
    pub content: Option<Digest>,
}

/// Hashes a file as it streams by.
#[derive(Clone)]
pub struct FileHasher {
    whole: Hasher,
    /// How many bytes are still covered; `None` when the covered part is over, or there is none.
    left: Option<u64>,
    content: Option<Digest>,
}

impl FileHasher {
    /// Starts at the file's beginning. `covered`: the length of the part that an embedded signature covers.
    #[must_use]
    pub fn new(covered: Option<u64>) -> Self {
        Self { whole: Hasher::new(), left: covered, content: None }
    }

    /// Adds the next bytes of the file.
    pub fn update(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if let Some(left) = self.left {
            let take = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
            let (covered, behind) = bytes.split_at(take);
            self.whole.update(covered);
            self.left = Some(left - take as u64);
            if self.left == Some(0) {
                // The same state goes on for the whole: no byte is hashed twice.
                self.content = Some(self.whole.clone().finish());
                self.left = None;
            }
            rest = behind;
        }
        self.whole.update(rest);
    }

    /// The digests. A file that ended before its covered part did has none of it.
    #[must_use]
    pub fn finish(self) -> FileDigests {
        FileDigests { whole: self.whole.finish(), content: self.content }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_do_not_depend_on_how_the_file_is_cut() {
        let file: Vec<u8> = (0..200_u8).collect();
        for covered in [1, 63, 64, 65, 199, 200] {
            for step in [1, 7, 64, 200] {
                let mut hasher = FileHasher::new(Some(covered));
                file.chunks(step).for_each(|chunk| hasher.update(chunk));
                let expected = Digest::of(&file[..usize::try_from(covered).expect("small")]);
                let digests = hasher.finish();
                assert_eq!((digests.whole, digests.content), (Digest::of(&file), Some(expected)), "{covered} {step}");
            }
        }
    }

    #[test]
    fn a_short_file_has_no_covered_part() {
        let mut hasher = FileHasher::new(Some(10));
        hasher.update(b"short");
        assert_eq!(hasher.finish().content, None);
    }
}
