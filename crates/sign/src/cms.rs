// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The signature: CMS `SignedData` (RFC 5652), detached, one signer, in the one encoding that is accepted.
//!
//! It is what `openssl cms -sign -binary -noattr -nocerts -nosmimecap` writes and what the kernel's PKCS#7 verifier
//! takes. The only free parts are who signed and the signature value: reading takes those two out, encodes the rest
//! anew and compares, so no other byte can differ unnoticed.

use cms::cert::IssuerAndSerialNumber;
use cms::content_info::{CmsVersion, ContentInfo};
use cms::signed_data::{EncapsulatedContentInfo, SignedData, SignerIdentifier, SignerInfo, SignerInfos};
use const_oid::ObjectIdentifier;
use const_oid::db::{rfc5911, rfc5912};
use der::asn1::{Any, OctetString, SetOfVec, Uint};
use der::{Decode, Encode, Sequence};
use spki::AlgorithmIdentifierOwned;

use crate::certificate::{Certificate, Trust};
use crate::digest::DIGEST_SIZE;
use crate::key::{KeyAlgorithm, KeyError, Signer};
use crate::statement::Statement;

/// The longest signature that is read, in bytes: what the kernel's programs have room for (`TM_SIGNATURE_MAX`).
pub const MAX_SIZE: usize = 2048;

/// Bytes that are no signature of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a detached CMS signature, found {0}")]
pub struct CmsError(String);

/// Why a signature cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The certificate is not for this key.
    #[error("expected a certificate for the signing key, found one for another key ({0})")]
    Mismatch(String),
    /// With this certificate's names the signature would be too long.
    #[error(
        "expected a signature of at most {MAX_SIZE} bytes, found {0}; use a certificate with a shorter issuer name"
    )]
    TooLong(usize),
    /// The key refused.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// It cannot be encoded.
    #[error("cannot encode the signature: {0}")]
    Encode(String),
}

/// Why a signature does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// It is no signature of ours.
    #[error(transparent)]
    Malformed(#[from] CmsError),
    /// The signer is not trusted.
    #[error("signed by an unknown key ({0})")]
    UnknownSigner(String),
    /// The signer is trusted, but signed something else.
    #[error("the content is not what was signed (by {0})")]
    WrongContent(String),
}

/// What a signature says of itself; nothing is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureInfo {
    id: IssuerAndSerialNumber,
    scheme: Scheme,
    value: Vec<u8>,
}

/// Signs `statement`.
///
/// # Errors
/// Key and certificate do not belong together, or the key refuses.
pub fn sign(statement: &Statement, signer: &dyn Signer, certificate: &Certificate) -> Result<Vec<u8>, SignError> {
    if !certificate.matches(signer) {
        return Err(SignError::Mismatch(certificate.subject()));
    }
    let id = IssuerAndSerialNumber::from_der(certificate.id()).map_err(|error| SignError::Encode(error.to_string()))?;
    let info = SignatureInfo { id, scheme: Scheme::of(signer.algorithm()), value: signer.sign(&statement.encode())? };
    let der = info.encode().map_err(|error| SignError::Encode(error.to_string()))?;
    if der.len() > MAX_SIZE { Err(SignError::TooLong(der.len())) } else { Ok(der) }
}

/// The most bytes that [`sign`] can return with this certificate.
///
/// # Errors
/// It cannot be encoded.
pub fn max_len(certificate: &Certificate) -> Result<usize, SignError> {
    let encode = |error: der::Error| SignError::Encode(error.to_string());
    let longest = SignatureInfo {
        id: IssuerAndSerialNumber::from_der(certificate.id()).map_err(encode)?,
        scheme: Scheme::of(certificate.algorithm()),
        value: vec![0; certificate.algorithm().max_signature_len()],
    };
    Ok(longest.encode().map_err(encode)?.len())
}

/// Checks that `der` is a signature of `statement` by a trusted certificate, and returns that certificate.
///
/// # Errors
/// Why it is not.
pub fn verify<'t>(der: &[u8], statement: &Statement, trust: &'t Trust) -> Result<&'t Certificate, VerifyError> {
    let message = statement.encode();
    // The common case: all but the value is, byte for byte, what this certificate's signatures begin with.
    let quick = |certificate: &&Certificate| {
        certificate.value_of(der).is_some_and(|value| certificate.verifies(&message, value))
    };
    if let Some(certificate) = trust.certificates().iter().find(quick) {
        return Ok(certificate);
    }
    let info = SignatureInfo::parse(der)?;
    let id = info.id.to_der().map_err(|error| CmsError(error.to_string()))?;
    // Two keys may bear the same issuer and serial number.
    let named = || trust.certificates().iter().filter(|known| known.id() == id);
    let Some(first) = named().next() else { return Err(VerifyError::UnknownSigner(info.signer())) };
    named()
        .filter(|certificate| Scheme::of(certificate.algorithm()) == info.scheme)
        .find(|certificate| certificate.verifies(&message, &info.value))
        .ok_or_else(|| VerifyError::WrongContent(first.subject()))
}

/// The name of a signature, by which it can be revoked: what nobody can change without the key, and the kernel finds
/// quickly. RSA: the last 32 bytes of the value. ECDSA: r, to the right in 32 bytes, of P-384 its last 32 bytes; r and not
/// s, because (r, n - s) is another valid signature of the same content.
///
/// # Errors
/// It is no signature of ours.
pub fn signature_id(der: &[u8]) -> Result<[u8; DIGEST_SIZE], CmsError> {
    let info = SignatureInfo::parse(der)?;
    let broken = |error: der::Error| CmsError(format!("a signature value that is broken: {error}"));
    let bytes = match info.scheme {
        Scheme::Rsa => info.value,
        Scheme::EcdsaSha256 | Scheme::EcdsaSha384 => {
            EcdsaValue::from_der(&info.value).map_err(broken)?.r.as_bytes().to_vec()
        }
    };
    let mut id = [0; DIGEST_SIZE];
    for (target, byte) in id.iter_mut().rev().zip(bytes.iter().rev()) {
        *target = *byte;
    }
    Ok(id)
}

/// `ECDSA-Sig-Value` (RFC 3279, 2.2.3).
#[derive(Sequence)]
struct EcdsaValue {
    r: Uint,
    s: Uint,
}

/// What every signature by an RSA key begins with, up to the value, which has always the same length.
/// `None` for ECDSA, whose values do not.
pub(crate) fn rsa_prefix(id: &IssuerAndSerialNumber, algorithm: KeyAlgorithm) -> der::Result<Option<Vec<u8>>> {
    let scheme = Scheme::of(algorithm);
    if scheme != Scheme::Rsa {
        return Ok(None);
    }
    let length = algorithm.max_signature_len();
    let mut der = SignatureInfo { id: id.clone(), scheme, value: vec![0; length] }.encode()?;
    der.truncate(der.len().saturating_sub(length));
    Ok(Some(der))
}

impl SignatureInfo {
    /// Reads a signature; every byte but those of the signer's name, serial number and the value must be as expected.
    ///
    /// # Errors
    /// What is not as expected.
    pub fn parse(der: &[u8]) -> Result<Self, CmsError> {
        if der.len() > MAX_SIZE {
            return Err(CmsError(format!("{} bytes, more than {MAX_SIZE}", der.len())));
        }
        let broken = |error: der::Error| CmsError(format!("broken DER: {error}"));
        let content = ContentInfo::from_der(der).map_err(broken)?;
        let data: SignedData = content.content.decode_as().map_err(broken)?;
        let [signer] = data.signer_infos.0.as_slice() else {
            return Err(CmsError(format!("{} signers instead of one", data.signer_infos.0.len())));
        };
        let SignerIdentifier::IssuerAndSerialNumber(id) = &signer.sid else {
            return Err(CmsError("a signer named by key identifier instead of issuer and serial number".to_owned()));
        };
        let info = Self {
            id: id.clone(),
            scheme: Scheme::by_oid(signer.signature_algorithm.oid)
                .ok_or_else(|| CmsError(format!("the algorithm {}", signer.signature_algorithm.oid)))?,
            value: signer.signature.as_bytes().to_vec(),
        };
        if info.encode().map_err(broken)? != der {
            return Err(CmsError("attributes, certificates or an encoding that are not allowed".to_owned()));
        }
        Ok(info)
    }

    /// Who signed, as issuer and serial number.
    #[must_use]
    pub fn signer(&self) -> String {
        format!("issuer {}, serial number {}", self.id.issuer, self.id.serial_number)
    }

    /// The issuer's name as RFC 4514 text.
    #[must_use]
    pub fn issuer(&self) -> String {
        self.id.issuer.to_string()
    }

    /// The certificate's serial number, hexadecimal.
    #[must_use]
    pub fn serial(&self) -> String {
        self.id.serial_number.to_string()
    }

    /// The signature scheme in words, such as `RSA with SHA-256`.
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        match self.scheme {
            Scheme::Rsa => "RSA with SHA-256",
            Scheme::EcdsaSha256 => "ECDSA with SHA-256",
            Scheme::EcdsaSha384 => "ECDSA with SHA-384",
        }
    }

    /// The one encoding of these values.
    fn encode(&self) -> der::Result<Vec<u8>> {
        let digest = AlgorithmIdentifierOwned { oid: self.scheme.digest_oid(), parameters: None };
        let signer = SignerInfo {
            version: CmsVersion::V1,
            sid: SignerIdentifier::IssuerAndSerialNumber(self.id.clone()),
            digest_alg: digest.clone(),
            signed_attrs: None,
            signature_algorithm: self.scheme.identifier(),
            signature: OctetString::new(&self.value[..])?,
            unsigned_attrs: None,
        };
        let data = SignedData {
            version: CmsVersion::V1,
            digest_algorithms: SetOfVec::try_from(vec![digest])?,
            encap_content_info: EncapsulatedContentInfo { econtent_type: rfc5911::ID_DATA, econtent: None },
            certificates: None,
            crls: None,
            signer_infos: SignerInfos(SetOfVec::try_from(vec![signer])?),
        };
        ContentInfo { content_type: rfc5911::ID_SIGNED_DATA, content: Any::encode_from(&data)? }.to_der()
    }
}

/// Signature scheme and digest; they go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Rsa,
    EcdsaSha256,
    EcdsaSha384,
}

impl Scheme {
    fn of(algorithm: KeyAlgorithm) -> Self {
        match algorithm {
            KeyAlgorithm::Rsa2048 | KeyAlgorithm::Rsa3072 | KeyAlgorithm::Rsa4096 => Self::Rsa,
            KeyAlgorithm::EcdsaP256 => Self::EcdsaSha256,
            KeyAlgorithm::EcdsaP384 => Self::EcdsaSha384,
        }
    }

    fn by_oid(oid: ObjectIdentifier) -> Option<Self> {
        [Self::Rsa, Self::EcdsaSha256, Self::EcdsaSha384].into_iter().find(|scheme| scheme.identifier().oid == oid)
    }

    fn identifier(self) -> AlgorithmIdentifierOwned {
        let (oid, parameters) = match self {
            Self::Rsa => (rfc5912::RSA_ENCRYPTION, Some(Any::null())),
            Self::EcdsaSha256 => (rfc5912::ECDSA_WITH_SHA_256, None),
            Self::EcdsaSha384 => (rfc5912::ECDSA_WITH_SHA_384, None),
        };
        AlgorithmIdentifierOwned { oid, parameters }
    }

    fn digest_oid(self) -> ObjectIdentifier {
        if self == Self::EcdsaSha384 { rfc5912::ID_SHA_384 } else { rfc5912::ID_SHA_256 }
    }
}
