// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The digests do not depend on how a file is cut into pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchmark_sign::digest::Digest;
use touchmark_sign::verify::FileHasher;

fuzz_target!(|input: (u16, Vec<u8>, &[u8])| {
    let (covered, cuts, mut file) = input;
    let (whole, covered) = (file, usize::from(covered));
    let mut hasher = FileHasher::new(Some(covered as u64));
    for cut in cuts {
        let (piece, rest) = file.split_at(usize::from(cut).min(file.len()));
        hasher.update(piece);
        file = rest;
    }
    hasher.update(file);
    let digests = hasher.finish();
    assert_eq!(digests.whole, Digest::of(whole));
    if covered > 0 {
        assert_eq!(digests.content, whole.get(..covered).map(Digest::of));
    }
});
