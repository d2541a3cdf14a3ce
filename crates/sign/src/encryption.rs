// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opening encrypted PKCS#8 keys (RFC 5958, 3; RFC 8018), in bounded time and memory.
//!
//! The file itself says how much work it takes to open it, and the library does what it says: without a bound, a crafted
//! key could make whoever opens it wait for hours, or run out of memory.

use der::{AnyRef, Decode, Sequence};
use pkcs8::pkcs5::pbes2::{Kdf, Pbkdf2Params, ScryptParams};
use pkcs8::pkcs5::{self, EncryptionScheme};
use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use spki::AlgorithmIdentifierRef;

use crate::key::KeyError;

/// The most PBKDF2 iterations, a few seconds; openssl writes 2048, OWASP advises 600,000.
const MAX_ITERATIONS: u32 = 10_000_000;

/// The most bytes that scrypt fills, 128 N r p; openssl reads and writes up to 32 MiB.
const MAX_SCRYPT: u64 = 256 << 20;

/// `EncryptedPrivateKeyInfo`, whatever its algorithm.
#[derive(Sequence)]
struct Shape<'a> {
    algorithm: AlgorithmIdentifierRef<'a>,
    data: AnyRef<'a>,
}

/// Opens `EncryptedPrivateKeyInfo`, DER, and gives the PKCS#8 key inside.
pub(crate) fn open(der: &[u8], passphrase: Option<&[u8]>) -> Result<SecretDocument, KeyError> {
    let shape = Shape::from_der(der).map_err(|error| KeyError::NotAKey(error.to_string()))?;
    // The library reads only algorithms that it knows; of others it says that the file is broken, which it is not.
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(der)
        .map_err(|error| KeyError::Encryption(format!("algorithm {} ({error})", shape.algorithm.oid)))?;
    check_cost(&encrypted.encryption_algorithm)?;
    let passphrase = passphrase.ok_or(KeyError::PassphraseNeeded)?;
    encrypted.decrypt(passphrase).map_err(|error| match error {
        // Wrong padding, or noise behind right padding.
        pkcs8::Error::EncryptedPrivateKey(pkcs5::Error::DecryptFailed) | pkcs8::Error::Asn1(_) => {
            KeyError::WrongPassphrase
        }
        other => KeyError::Encryption(other.to_string()),
    })
}

fn check_cost(scheme: &EncryptionScheme) -> Result<(), KeyError> {
    let parameters = scheme.pbes2().ok_or_else(|| KeyError::Encryption("PBES1".to_owned()))?;
    let found = match &parameters.kdf {
        Kdf::Pbkdf2(Pbkdf2Params { iteration_count, .. }) => {
            let fits = (1..=MAX_ITERATIONS).contains(iteration_count);
            (!fits).then(|| format!("PBKDF2 with {iteration_count} iterations"))
        }
        Kdf::Scrypt(ScryptParams { cost_parameter: n, block_size: r, parallelization: p, .. }) => {
            let lanes = u64::from(*r) * u64::from(*p);
            let fits = n.checked_mul(128 * lanes).is_some_and(|bytes| (1..=MAX_SCRYPT).contains(&bytes));
            // The library panics where N is 0.
            (!fits || *n < 2 || !n.is_power_of_two()).then(|| format!("scrypt with N {n}, r {r}, p {p}"))
        }
        _ => Some("another key derivation".to_owned()),
    };
    found.map_or(Ok(()), |found| Err(KeyError::Encryption(found)))
}

#[cfg(test)]
mod tests {
    use der::Encode;
    use pkcs8::pkcs5::pbes2::{EncryptionScheme as Cipher, Parameters, Salt};

    use super::*;

    fn open_with(kdf: Kdf) -> KeyError {
        #[derive(Sequence)]
        struct Encrypted {
            scheme: EncryptionScheme,
            data: der::asn1::OctetString,
        }
        let scheme = Parameters { kdf, encryption: Cipher::Aes256Cbc { iv: [0; 16] } }.into();
        let data = der::asn1::OctetString::new([0; 48]).expect("short");
        let der = Encrypted { scheme, data }.to_der().expect("encode");
        open(&der, Some(b"passphrase")).expect_err("no key inside")
    }

    #[test]
    fn no_key_file_chooses_how_long_we_work() {
        let salt = Salt::new([0; 8]).expect("short");
        let scrypt = |n, r, p| {
            open_with(Kdf::Scrypt(ScryptParams {
                salt,
                cost_parameter: n,
                block_size: r,
                parallelization: p,
                key_length: None,
            }))
        };
        for (n, r, p) in [
            (0, 8, 1),
            (1, 8, 1),
            (3, 8, 1),
            (16384, 0, 1),
            (16384, 8, 0),
            (16384, 8, u16::MAX),
            (16384, u16::MAX, 1),
            (1 << 40, 8, 1),
            (1 << 63, u16::MAX, u16::MAX),
            (u64::MAX, 8, 1),
        ] {
            assert!(matches!(scrypt(n, r, p), KeyError::Encryption(_)), "{n} {r} {p}");
        }
        assert_eq!(scrypt(16384, 8, 1), KeyError::WrongPassphrase);

        let pbkdf2 = |iterations| {
            let mut parameters = Pbkdf2Params::hmac_sha256(1, salt.as_ref()).expect("short");
            parameters.iteration_count = iterations;
            open_with(Kdf::Pbkdf2(parameters))
        };
        assert!(matches!(pbkdf2(0), KeyError::Encryption(_)));
        assert!(matches!(pbkdf2(u32::MAX), KeyError::Encryption(_)));
        assert_eq!(pbkdf2(2048), KeyError::WrongPassphrase);
    }
}
