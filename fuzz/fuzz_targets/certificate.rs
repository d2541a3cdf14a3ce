// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A certificate that parses keeps its bytes, and can be written as PEM and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchmark_sign::certificate::Certificate;

fuzz_target!(|bytes: &[u8]| {
    let _ = Certificate::from_pem_many(bytes);
    if let Ok(certificate) = Certificate::from_der(bytes) {
        assert_eq!(certificate.der(), bytes);
        let again = Certificate::from_pem(certificate.to_pem().as_bytes());
        assert!(again.is_ok_and(|again| again.subject() == certificate.subject()));
    }
});
