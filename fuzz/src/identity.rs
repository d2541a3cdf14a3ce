// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A key and a certificate, new in every process.

use touchmark_sign::certificate::{Certificate, Trust};
use touchmark_sign::cms;
use touchmark_sign::key::{KeyAlgorithm, PrivateKey};
use touchmark_sign::statement::Statement;

/// The serial number that every certificate here gets: signatures kept in a corpus then name a signer that is trusted,
/// though its key is another, so that their values get looked at and must be refused.
const SERIAL: [u8; 16] = *b"Touchmark fuzz 1";
/// What comes before the serial number in a certificate: version 3, and the tag and length of 16 bytes.
const BEFORE_SERIAL: &[u8] = &[0xa0, 3, 2, 1, 2, 2, 16];

/// Someone who signs.
pub struct Identity {
    /// Their key.
    pub key: PrivateKey,
    /// Only their certificate.
    pub trust: Trust,
}

impl Identity {
    /// Makes a key and a certificate.
    #[must_use]
    pub fn new(algorithm: KeyAlgorithm) -> Self {
        let key = PrivateKey::generate(algorithm).expect("a key can be made");
        let mut der = Certificate::self_signed(&key, "fuzz").expect("a certificate can be made").der().to_vec();
        let at = der.windows(BEFORE_SERIAL.len()).position(|window| window == BEFORE_SERIAL);
        let at = at.expect("a serial number of 16 bytes") + BEFORE_SERIAL.len();
        der[at..at + SERIAL.len()].copy_from_slice(&SERIAL);
        let certificate = Certificate::from_der(&der).expect("certificates are not verified when read");
        Self { key, trust: Trust::new(vec![certificate]) }
    }

    /// Their certificate.
    #[must_use]
    pub fn certificate(&self) -> &Certificate {
        &self.trust.certificates()[0]
    }

    /// Signs.
    #[must_use]
    pub fn sign(&self, statement: &Statement) -> Vec<u8> {
        cms::sign(statement, &self.key, self.certificate()).expect("the key signs")
    }
}
