// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signing keys: the algorithms, what every signer can do, and keys in PEM files.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair,
    RSA_PKCS1_SHA256,
};
use pkcs8::{PrivateKeyInfoRef, SecretDocument};
use zeroize::Zeroizing;

use crate::{encryption, pem};

/// The algorithms that Touchmark signs with; the kernel's verifier knows them all (6.12 and newer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyAlgorithm {
    /// RSA, 2048 bits, PKCS#1 v1.5 with SHA-256.
    Rsa2048,
    /// RSA, 3072 bits, PKCS#1 v1.5 with SHA-256.
    Rsa3072,
    /// RSA, 4096 bits, PKCS#1 v1.5 with SHA-256.
    Rsa4096,
    /// ECDSA on NIST P-256 with SHA-256.
    EcdsaP256,
    /// ECDSA on NIST P-384 with SHA-384.
    EcdsaP384,
}

impl KeyAlgorithm {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Rsa2048, Self::Rsa3072, Self::Rsa4096, Self::EcdsaP256, Self::EcdsaP384];

    /// The word on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Rsa2048 => "rsa2048",
            Self::Rsa3072 => "rsa3072",
            Self::Rsa4096 => "rsa4096",
            Self::EcdsaP256 => "ecdsa-p256",
            Self::EcdsaP384 => "ecdsa-p384",
        }
    }

    /// The longest signature in bytes: the modulus, or the largest DER of two integers.
    #[must_use]
    pub fn max_signature_len(self) -> usize {
        match self {
            Self::Rsa2048 => 256,
            Self::Rsa3072 => 384,
            Self::Rsa4096 => 512,
            Self::EcdsaP256 => 72,
            Self::EcdsaP384 => 104,
        }
    }

    /// By the length of an RSA modulus in bytes.
    #[must_use]
    pub fn rsa_by_modulus_len(len: usize) -> Option<Self> {
        [Self::Rsa2048, Self::Rsa3072, Self::Rsa4096].into_iter().find(|rsa| rsa.max_signature_len() == len)
    }

    fn ecdsa(self) -> Option<&'static EcdsaSigningAlgorithm> {
        match self {
            Self::EcdsaP256 => Some(&ECDSA_P256_SHA256_ASN1_SIGNING),
            Self::EcdsaP384 => Some(&ECDSA_P384_SHA384_ASN1_SIGNING),
            _ => None,
        }
    }
}

impl fmt::Display for KeyAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for KeyAlgorithm {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.word() == word)
            .ok_or_else(|| format!("expected one of {}, found `{word}`", Self::ALL.map(Self::word).join(", ")))
    }
}

/// What can go wrong with a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not a private key in PEM.
    #[error("expected a private key in PEM (PKCS#8, RSA or EC), found {0}")]
    NotAKey(String),
    /// Encrypted, and no passphrase was given.
    #[error("the private key is encrypted: expected a passphrase")]
    PassphraseNeeded,
    /// The passphrase does not open it.
    #[error("the passphrase does not open the private key")]
    WrongPassphrase,
    /// OpenSSL's old encryption, which hashes the passphrase once with MD5.
    #[error("expected PKCS#8 encryption, found OpenSSL's old one; convert the key: openssl pkcs8 -topk8")]
    LegacyEncryption,
    /// PKCS#8, but encrypted with an old algorithm, or at a cost that nobody chooses in good faith.
    #[error(
        "expected a key encrypted with AES under scrypt or PBKDF2 (SHA-2), at a usual cost, found {0}; \
         convert it: openssl pkcs8 -topk8 -in OLD -out NEW"
    )]
    Encryption(String),
    /// A kind or size of key that is not supported.
    #[error("expected an RSA key of 2048, 3072 or 4096 bits or an EC key on P-256 or P-384, found {0}")]
    Unsupported(String),
    /// The cryptographic library or the token failed.
    #[error("cannot {0}")]
    Failed(String),
}

/// Something that signs: a key in memory, or one in a token.
pub trait Signer: Send + Sync {
    /// What it signs with.
    fn algorithm(&self) -> KeyAlgorithm;

    /// The public key as SubjectPublicKeyInfo, DER.
    fn public_key(&self) -> &[u8];

    /// Signs `message`, hashed as the algorithm says. RSA: the raw value; ECDSA: DER.
    ///
    /// # Errors
    /// The key or token refuses.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError>;
}

/// A private key in memory.
pub struct PrivateKey {
    pair: Pair,
    public_key: Vec<u8>,
}

enum Pair {
    Rsa(KeyAlgorithm, RsaKeyPair),
    Ecdsa(KeyAlgorithm, EcdsaKeyPair),
}

impl PrivateKey {
    /// Makes a new key.
    ///
    /// # Errors
    /// The library fails, for example for want of randomness.
    pub fn generate(algorithm: KeyAlgorithm) -> Result<Self, KeyError> {
        let failed = |_| KeyError::Failed(format!("generate an {algorithm} key"));
        let size = match algorithm {
            KeyAlgorithm::Rsa2048 => KeySize::Rsa2048,
            KeyAlgorithm::Rsa3072 => KeySize::Rsa3072,
            KeyAlgorithm::Rsa4096 => KeySize::Rsa4096,
            KeyAlgorithm::EcdsaP256 => return Self::generate_ecdsa(algorithm, &ECDSA_P256_SHA256_ASN1_SIGNING),
            KeyAlgorithm::EcdsaP384 => return Self::generate_ecdsa(algorithm, &ECDSA_P384_SHA384_ASN1_SIGNING),
        };
        Self::from_rsa(RsaKeyPair::generate(size).map_err(failed)?)
    }

    /// Reads a key from PEM: PKCS#8, encrypted PKCS#8, or the older `RSA PRIVATE KEY` and `EC PRIVATE KEY`.
    ///
    /// # Errors
    /// No key, an unsupported one, or a passphrase that is missing or wrong.
    pub fn from_pem(pem: &[u8], passphrase: Option<&[u8]>) -> Result<Self, KeyError> {
        let (label, text) = find_private_key(pem)?;
        if text.contains("Proc-Type:") {
            return Err(KeyError::LegacyEncryption);
        }
        let (_, document) = SecretDocument::from_pem(text).map_err(|error| KeyError::NotAKey(error.to_string()))?;
        match label {
            "PRIVATE KEY" => Self::from_pkcs8(document.as_bytes()),
            "ENCRYPTED PRIVATE KEY" => {
                let opened = encryption::open(document.as_bytes(), passphrase)?;
                // A wrong passphrase can pass the padding check and give noise.
                Self::from_pkcs8(opened.as_bytes()).map_err(|error| match error {
                    KeyError::NotAKey(_) => KeyError::WrongPassphrase,
                    other => other,
                })
            }
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(document.as_bytes())
                .map_err(|error| KeyError::NotAKey(error.to_string()))
                .and_then(Self::from_rsa),
            "EC PRIVATE KEY" => Self::from_either_curve("an EC key on another curve", |algorithm| {
                EcdsaKeyPair::from_private_key_der(algorithm, document.as_bytes()).ok()
            }),
            other => Err(KeyError::NotAKey(format!("a PEM block `{other}`"))),
        }
    }

    /// Writes the key as PKCS#8 PEM; with a passphrase encrypted (PBES2: scrypt, AES-256-CBC).
    ///
    /// # Errors
    /// The library fails.
    pub fn to_pem(&self, passphrase: Option<&[u8]>) -> Result<Zeroizing<String>, KeyError> {
        let failed = |_| KeyError::Failed("encode the private key".to_owned());
        let der: Zeroizing<Vec<u8>> = match &self.pair {
            Pair::Rsa(_, pair) => {
                Zeroizing::new(AsDer::<Pkcs8V1Der<'_>>::as_der(pair).map_err(failed)?.as_ref().to_vec())
            }
            Pair::Ecdsa(_, pair) => Zeroizing::new(pair.to_pkcs8v1().map_err(failed)?.as_ref().to_vec()),
        };
        let failed = |error: pkcs8::Error| KeyError::Failed(format!("encode the private key: {error}"));
        let info = PrivateKeyInfoRef::try_from(&der[..]).map_err(failed)?;
        let (document, label) = match passphrase {
            Some(passphrase) => (info.encrypt(passphrase).map_err(failed)?, "ENCRYPTED PRIVATE KEY"),
            None => (SecretDocument::try_from(&der[..]).map_err(|error| failed(error.into()))?, "PRIVATE KEY"),
        };
        document.to_pem(label, pkcs8::LineEnding::LF).map_err(|error| failed(error.into()))
    }

    fn generate_ecdsa(algorithm: KeyAlgorithm, curve: &'static EcdsaSigningAlgorithm) -> Result<Self, KeyError> {
        let pair =
            EcdsaKeyPair::generate(curve).map_err(|_| KeyError::Failed(format!("generate an {algorithm} key")))?;
        Self::from_ecdsa(algorithm, pair)
    }

    fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let info = PrivateKeyInfoRef::try_from(der).map_err(|error| KeyError::NotAKey(error.to_string()))?;
        match info.algorithm.oid {
            const_oid::db::rfc5912::RSA_ENCRYPTION => RsaKeyPair::from_pkcs8(der)
                .map_err(|error| KeyError::Unsupported(format!("an RSA key that is refused: {error}")))
                .and_then(Self::from_rsa),
            const_oid::db::rfc5912::ID_EC_PUBLIC_KEY => {
                Self::from_either_curve("an EC key on another curve", |curve| EcdsaKeyPair::from_pkcs8(curve, der).ok())
            }
            other => Err(KeyError::Unsupported(format!("a key of type {other}"))),
        }
    }

    fn from_rsa(pair: RsaKeyPair) -> Result<Self, KeyError> {
        let algorithm = KeyAlgorithm::rsa_by_modulus_len(pair.public_modulus_len())
            .ok_or_else(|| KeyError::Unsupported(format!("RSA of {} bits", pair.public_modulus_len() * 8)))?;
        let public_key = spki(pair.public_key())?;
        Ok(Self { pair: Pair::Rsa(algorithm, pair), public_key })
    }

    fn from_either_curve(
        otherwise: &str,
        parse: impl Fn(&'static EcdsaSigningAlgorithm) -> Option<EcdsaKeyPair>,
    ) -> Result<Self, KeyError> {
        let parsed = KeyAlgorithm::ALL
            .into_iter()
            .find_map(|algorithm| Some((algorithm, parse(algorithm.ecdsa()?)?)))
            .ok_or_else(|| KeyError::Unsupported(otherwise.to_owned()))?;
        Self::from_ecdsa(parsed.0, parsed.1)
    }

    fn from_ecdsa(algorithm: KeyAlgorithm, pair: EcdsaKeyPair) -> Result<Self, KeyError> {
        let public_key = spki(pair.public_key())?;
        Ok(Self { pair: Pair::Ecdsa(algorithm, pair), public_key })
    }
}

impl Signer for PrivateKey {
    fn algorithm(&self) -> KeyAlgorithm {
        match &self.pair {
            Pair::Rsa(algorithm, _) | Pair::Ecdsa(algorithm, _) => *algorithm,
        }
    }

    fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let random = SystemRandom::new();
        let failed = |_| KeyError::Failed("sign".to_owned());
        match &self.pair {
            Pair::Rsa(_, pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map_err(failed)?;
                Ok(signature)
            }
            Pair::Ecdsa(_, pair) => Ok(pair.sign(&random, message).map_err(failed)?.as_ref().to_vec()),
        }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.algorithm())
    }
}

fn spki(key: &impl AsDer<PublicKeyX509Der<'static>>) -> Result<Vec<u8>, KeyError> {
    let der = key.as_der().map_err(|_| KeyError::Failed("encode the public key".to_owned()))?;
    Ok(der.as_ref().to_vec())
}

/// The first PEM block that is a private key; others, such as EC PARAMETERS, may come before it.
fn find_private_key(pem: &[u8]) -> Result<(&str, &str), KeyError> {
    let block = pem::blocks(pem, |label| label.ends_with("PRIVATE KEY"))
        .next()
        .ok_or_else(|| KeyError::NotAKey("no such PEM block".to_owned()))?
        .map_err(KeyError::NotAKey)?;
    let text = std::str::from_utf8(block.text).map_err(|_| KeyError::NotAKey("bytes that are no text".to_owned()))?;
    Ok((block.label, text))
}
