// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whatever can be signed is found again and comes back to the byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchmark_sign::elf::embed::Plan;
use touchmark_sign::elf::embedded::{Embedded, apply};

const SIGNATURE: &[u8] = b"not checked here";

fuzz_target!(|input: (bool, bool, &[u8])| {
    let (wide, big, rest) = input;
    let ident = [0x7f, b'E', b'L', b'F', 1 + u8::from(wide), 1 + u8::from(big), 1, 0];
    let original = [&ident[..], rest].concat();
    let Ok(plan) = Plan::new(&original[..], original.len() as u64, 64) else { return };

    let mut signed = original.clone();
    apply(&plan.patches, &mut signed, 0);
    signed.extend_from_slice(&plan.appended);
    let covered = signed.len() as u64;
    signed.extend(plan.finish(SIGNATURE).expect("it fits"));
    assert_eq!(signed.len() as u64, plan.signed_len());

    let found = Embedded::find(&signed[..], signed.len() as u64).expect("well-formed").expect("signed");
    assert_eq!(found.covered, covered);
    assert_eq!(found.read_der(&signed[..]).expect("readable"), SIGNATURE);
    signed.truncate(usize::try_from(found.original_len).expect("in memory"));
    apply(&found.restore, &mut signed, 0);
    assert_eq!(signed, original);
});
