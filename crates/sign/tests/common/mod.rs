// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests of ELF files share.

use touchmark_sign::certificate::{Certificate, Trust};
use touchmark_sign::cms;
use touchmark_sign::digest::Digest;
use touchmark_sign::elf::ElfError;
use touchmark_sign::elf::embed::Plan;
use touchmark_sign::elf::embedded::{Embedded, apply};
use touchmark_sign::key::{KeyAlgorithm, PrivateKey};
use touchmark_sign::statement::{Kind, Statement};

/// A key and the certificate that trusts it.
pub(crate) struct Identity {
    key: PrivateKey,
    /// Trusts the key.
    pub(crate) trust: Trust,
}

impl Identity {
    /// Makes a key.
    pub(crate) fn new() -> Self {
        let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).expect("generate");
        let certificate = Certificate::self_signed(&key, "elf test").expect("certificate");
        Self { key, trust: Trust::new(vec![certificate]) }
    }

    /// The file with a signature inside.
    pub(crate) fn sign(&self, original: &[u8]) -> Result<Vec<u8>, ElfError> {
        let certificate = &self.trust.certificates()[0];
        let capacity = u32::try_from(cms::max_len(certificate).expect("length")).expect("small");
        let plan = Plan::new(original, original.len() as u64, capacity)?;
        let mut signed = original.to_vec();
        apply(&plan.patches, &mut signed, 0);
        signed.extend_from_slice(&plan.appended);
        let statement = Statement::new(Kind::ElfContent, Digest::of(&signed));
        let der = cms::sign(&statement, &self.key, certificate).expect("sign");
        signed.extend(plan.finish(&der)?);
        assert_eq!(signed.len() as u64, plan.signed_len());
        Ok(signed)
    }

    /// Whether there is a signature inside, by this key, that covers the file.
    pub(crate) fn verifies(&self, file: &[u8]) -> bool {
        let Ok(Some(embedded)) = Embedded::find(file, file.len() as u64) else { return false };
        let Ok(der) = embedded.read_der(file) else { return false };
        let covered = &file[..usize::try_from(embedded.covered).expect("small")];
        cms::verify(&der, &Statement::new(Kind::ElfContent, Digest::of(covered)), &self.trust).is_ok()
    }
}

/// The file as it was before.
pub(crate) fn unsign(signed: &[u8]) -> Vec<u8> {
    let embedded = Embedded::find(signed, signed.len() as u64).expect("well-formed").expect("signed");
    let mut original = signed[..usize::try_from(embedded.original_len).expect("small")].to_vec();
    apply(&embedded.restore, &mut original, 0);
    original
}
