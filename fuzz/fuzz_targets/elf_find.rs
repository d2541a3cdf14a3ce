// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looking for a signature in any bytes, with the trailer in place so that the search goes on.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchmark_sign::elf::ReadAt;
use touchmark_sign::elf::embedded::Embedded;

fuzz_target!(|bytes: &[u8]| {
    look(bytes);
    look(&[b"\x7fELF", bytes, b"touchmrk"].concat());
});

fn look(file: &[u8]) {
    let len = file.len() as u64;
    if let Ok(Some(embedded)) = Embedded::find(file, len) {
        assert!(embedded.covered <= len && embedded.der.end <= len && embedded.original_len <= embedded.covered);
        let _ = embedded.read_der(file);
        let mut original = vec![0; usize::try_from(embedded.original_len).expect("in memory")];
        embedded.original(file).read_exact_at(&mut original, 0).expect("the original is within the file");
    }
}
