// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A private key that parses can be written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchmark_sign::key::{PrivateKey, Signer};

fuzz_target!(|bytes: &[u8]| {
    // Without a passphrase: its owner chooses how slow the encryption is.
    if let Ok(key) = PrivateKey::from_pem(bytes, None) {
        let pem = key.to_pem(None).expect("a key that was read can be written");
        let again = PrivateKey::from_pem(pem.as_bytes(), None).expect("what was written can be read");
        assert_eq!(again.public_key(), key.public_key());
    }
});
