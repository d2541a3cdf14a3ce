// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any bytes as a signature: this process's keys signed none of them, so none may verify.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use touchmark_fuzz::identity::Identity;
use touchmark_fuzz::seeds;
use touchmark_sign::certificate::Trust;
use touchmark_sign::cms::{MAX_SIZE, SignatureInfo, VerifyError, verify};
use touchmark_sign::digest::Digest;
use touchmark_sign::key::KeyAlgorithm;
use touchmark_sign::statement::{Kind, Statement};

const ALGORITHMS: [KeyAlgorithm; 3] = [KeyAlgorithm::Rsa2048, KeyAlgorithm::EcdsaP256, KeyAlgorithm::EcdsaP384];

static TRUST: LazyLock<Trust> = LazyLock::new(|| {
    let identities = ALGORITHMS.map(Identity::new);
    Trust::new(identities.iter().map(|identity| identity.certificate().clone()).collect())
});

fn statement() -> Statement {
    Statement::new(Kind::File, Digest::of(b"fuzz"))
}

fuzz_target!(
    init: seeds::plant(|| ALGORITHMS.map(|algorithm| Identity::new(algorithm).sign(&statement())).to_vec()),
    |data: &[u8]| {
        let parsed = SignatureInfo::parse(data);
        assert_eq!(parsed, SignatureInfo::parse(data));
        let verified = verify(data, &statement(), &TRUST);
        assert_eq!(verified, verify(data, &statement(), &TRUST));
        let alone = Trust::default();
        let alone = verify(data, &statement(), &alone);
        match parsed {
            Err(error) => {
                assert_eq!(verified, Err(VerifyError::Malformed(error.clone())));
                assert_eq!(alone, Err(VerifyError::Malformed(error)));
            }
            Ok(info) => {
                assert!(data.len() <= MAX_SIZE);
                assert!(matches!(verified, Err(VerifyError::UnknownSigner(_) | VerifyError::WrongContent(_))));
                assert_eq!(alone, Err(VerifyError::UnknownSigner(info.signer())));
            }
        }
    }
);
