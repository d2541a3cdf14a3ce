// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nobody's bytes verify, whether they parse or not. Half of the input replaces parts of a real signature, so that the
//! parser gets past its first checks.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use touchmark_sign::certificate::{Certificate, Trust};
use touchmark_sign::cms::{self, SignatureInfo};
use touchmark_sign::digest::Digest;
use touchmark_sign::key::{KeyAlgorithm, PrivateKey};
use touchmark_sign::statement::{Kind, Statement};

struct Real {
    trust: Trust,
    statement: Statement,
    der: Vec<u8>,
}

static REAL: LazyLock<Real> = LazyLock::new(|| {
    let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).expect("generate");
    let certificate = Certificate::self_signed(&key, "fuzz").expect("certificate");
    let statement = Statement::new(Kind::File, Digest::of(b"fuzz"));
    let der = cms::sign(&statement, &key, &certificate).expect("sign");
    Real { trust: Trust::new(vec![certificate]), statement, der }
});

fuzz_target!(|bytes: &[u8]| {
    let real = &*REAL;
    let _ = SignatureInfo::parse(bytes);
    assert!(cms::verify(bytes, &real.statement, &real.trust).is_err());

    let mut changed = real.der.clone();
    for change in bytes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % changed.len();
        changed[at] = change[2];
    }
    let verified = cms::verify(&changed, &real.statement, &real.trust).is_ok();
    assert_eq!(verified, changed == real.der);
});
