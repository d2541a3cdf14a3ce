// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looking for a signature in any bytes: what is found lies inside the file, and the original can be read.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use touchmark_fuzz::elf::{Shape, sign};
use touchmark_fuzz::identity::Identity;
use touchmark_fuzz::seeds;
use touchmark_sign::cms::{MAX_SIZE, verify};
use touchmark_sign::digest::Digest;
use touchmark_sign::elf::ReadAt;
use touchmark_sign::elf::embedded::{Embedded, apply};
use touchmark_sign::key::KeyAlgorithm;
use touchmark_sign::statement::{Kind, Statement};

static STRANGER: LazyLock<Identity> = LazyLock::new(|| Identity::new(KeyAlgorithm::EcdsaP256));

fuzz_target!(
    init: seeds::plant(|| {
        let identity = Identity::new(KeyAlgorithm::EcdsaP256);
        let shapes = [(true, false), (true, true), (false, false), (false, true)];
        shapes.map(|(is_64, big)| sign(&identity, &Shape::proper(is_64, big).bytes()).expect("it can be")).to_vec()
    }),
    |data: &[u8]| {
        let len = data.len() as u64;
        let Ok(Some(found)) = Embedded::find(data, len) else { return };
        assert!(found.original_len < found.covered && found.covered == found.der.start && found.der.end < len);
        assert!(found.restore.iter().all(|patch| patch.offset + patch.bytes.len() as u64 <= found.original_len));
        let original_len = usize::try_from(found.original_len).expect("inside the file");
        let mut expected = data[..original_len].to_vec();
        apply(&found.restore, &mut expected, 0);
        assert_eq!(expected.len(), original_len);
        let view = found.original(data);
        for size in [1, 7, original_len] {
            let mut read = vec![0; original_len];
            for (index, chunk) in read.chunks_mut(size.max(1)).enumerate() {
                view.read_exact_at(chunk, (index * size) as u64).expect("inside the original");
            }
            assert_eq!(read, expected);
        }
        assert!(view.read_exact_at(&mut [0], found.original_len).is_err());

        let Ok(der) = found.read_der(data) else { return };
        assert!(der.len() <= MAX_SIZE);
        let covered = &data[..usize::try_from(found.covered).expect("inside the file")];
        let statement = Statement::new(Kind::ElfContent, Digest::of(covered));
        assert!(verify(&der, &statement, &STRANGER.trust).is_err());
    }
);
