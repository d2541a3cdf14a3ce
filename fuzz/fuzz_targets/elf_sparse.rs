// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of any size up to the largest: looking and planning take little memory, and what is planned adds up.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use touchmark_fuzz::elf::{Shape, Sparse};
use touchmark_sign::elf::embed::Plan;
use touchmark_sign::elf::embedded::Embedded;

#[derive(Arbitrary, Debug)]
enum File {
    Raw(Sparse),
    Shape(Shape, u64, Vec<u8>),
}

fuzz_target!(|input: File| {
    let file = match input {
        File::Raw(file) => file,
        File::Shape(shape, hole, tail) => Sparse { head: shape.bytes(), hole, tail },
    };
    let Some(len) = file.len() else { return };
    if let Ok(Some(found)) = Embedded::find(&file, len) {
        assert!(found.covered <= found.der.start && found.der.end < len && found.original_len < found.covered);
        let _ = found.read_der(&file);
    }
    if let Ok(plan) = Plan::new(&file, len, 200) {
        assert_eq!(plan.original_len, len);
        let end = plan.finish(&[1; 100]).expect("it fits");
        assert_eq!(plan.signed_len(), len + (plan.appended.len() + end.len()) as u64);
        assert!(plan.finish(&[1; 201]).is_err());
        assert!(plan.patches.iter().all(|patch| patch.offset + patch.bytes.len() as u64 <= 64.min(len)));
    }
});
