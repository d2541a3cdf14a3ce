// SPDX-License-Identifier: Apache-2.0 OR MIT
//! X.509 certificates: whose signatures count.
//!
//! A certificate is trusted because its owner named it, and for as long as they do. Chains and validity dates are not
//! looked at, in user space or by the kernel: a date would let a machine with a wrong clock refuse to start.

use std::fmt;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
};
use cms::cert::IssuerAndSerialNumber;
use const_oid::db::{rfc4519, rfc5912};
use const_oid::{AssociatedOid, ObjectIdentifier};
use der::asn1::{BitString, OctetString, PrintableString, SetOfVec, Utf8StringRef};
use der::{Any, Decode, Encode, Sequence};
use spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage, KeyUsages, SubjectKeyIdentifier};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::time::{Time, Validity};

use crate::digest::Digest;
use crate::key::{KeyAlgorithm, KeyError, Signer};
use crate::pem;

/// How long a self-signed certificate says it is valid; nothing of ours looks at it, other programs may.
const VALIDITY: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The longest common name (RFC 5280, ub-common-name), in characters.
const MAX_NAME: usize = 64;

/// What can go wrong with a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// Not an X.509 certificate.
    #[error("expected an X.509 certificate in PEM, found {0}")]
    NotACertificate(String),
    /// Its key cannot verify anything of ours.
    #[error("expected a certificate for RSA of 2048, 3072 or 4096 bits or for EC on P-256 or P-384, found {0}")]
    UnsupportedKey(String),
    /// A common name that cannot be used.
    #[error("expected a name of 1 to 64 characters, found {0}")]
    Name(usize),
    /// The key refused to sign.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// A certificate and its public key, ready to verify.
#[derive(Clone)]
pub struct Certificate {
    der: Vec<u8>,
    parsed: x509_cert::Certificate,
    /// `IssuerAndSerialNumber` (RFC 5652, 10.2.4), DER: how a signature names its signer.
    id: Vec<u8>,
    /// What its signatures begin with, for RSA.
    prefix: Option<Vec<u8>>,
    algorithm: KeyAlgorithm,
    key: std::sync::Arc<ParsedPublicKey>,
}

impl Certificate {
    /// Reads the first certificate of a PEM text.
    ///
    /// # Errors
    /// There is none, or its key is not supported.
    pub fn from_pem(pem: &[u8]) -> Result<Self, CertificateError> {
        let mut all = Self::from_pem_many(pem)?;
        Ok(all.swap_remove(0))
    }

    /// Reads all certificates of a PEM text; there is at least one.
    ///
    /// # Errors
    /// There is none, or a key is not supported.
    pub fn from_pem_many(pem: &[u8]) -> Result<Vec<Self>, CertificateError> {
        let all = pem::blocks(pem, |label| label == "CERTIFICATE")
            .map(|block| {
                let text = block.map_err(CertificateError::NotACertificate)?.text;
                let (_, der) =
                    der::pem::decode_vec(text).map_err(|error| CertificateError::NotACertificate(error.to_string()))?;
                Self::from_der(&der)
            })
            .collect::<Result<Vec<_>, _>>()?;
        if all.is_empty() { Err(CertificateError::NotACertificate("no such PEM block".to_owned())) } else { Ok(all) }
    }

    /// Reads a certificate from DER.
    ///
    /// # Errors
    /// It is none, or its key is not supported.
    pub fn from_der(der: &[u8]) -> Result<Self, CertificateError> {
        let parsed = x509_cert::Certificate::from_der(der)
            .map_err(|error| CertificateError::NotACertificate(error.to_string()))?;
        Self::from_parts(der.to_vec(), parsed)
    }

    /// Makes a certificate for the signer's key, signed by itself.
    ///
    /// # Errors
    /// The name is empty or too long, or the key refuses to sign.
    pub fn self_signed(signer: &dyn Signer, name: &str) -> Result<Self, CertificateError> {
        let encode = |error: der::Error| CertificateError::NotACertificate(error.to_string());
        let subject = common_name(name)?;
        let public_key = SubjectPublicKeyInfoOwned::from_der(signer.public_key()).map_err(encode)?;
        let signature_algorithm = signature_algorithm(signer.algorithm());
        let tbs = Tbs {
            version: 2,
            serial: random_serial()?,
            signature: signature_algorithm.clone(),
            issuer: subject.clone(),
            validity: validity().map_err(encode)?,
            subject,
            extensions: extensions(&public_key).map_err(encode)?,
            public_key,
        };
        let message = tbs.to_der().map_err(encode)?;
        let signature = BitString::from_bytes(&signer.sign(&message)?).map_err(encode)?;
        let signed = Signed { tbs, algorithm: signature_algorithm, signature };
        Self::from_der(&signed.to_der().map_err(encode)?)
    }

    /// The certificate as DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The certificate as PEM.
    #[must_use]
    pub fn to_pem(&self) -> String {
        // The DER was checked when this was made, so encoding it cannot fail.
        der::pem::encode_string("CERTIFICATE", der::pem::LineEnding::LF, &self.der).unwrap_or_default()
    }

    /// Whose it is, as RFC 4514 text such as `CN=Touchmark signing key`.
    #[must_use]
    pub fn subject(&self) -> String {
        self.parsed.tbs_certificate().subject().to_string()
    }

    /// The SHA-256 of its DER.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        Digest::of(&self.der)
    }

    /// What its key signs with.
    #[must_use]
    pub fn algorithm(&self) -> KeyAlgorithm {
        self.algorithm
    }

    /// Whether it is for the signer's key.
    #[must_use]
    pub fn matches(&self, signer: &dyn Signer) -> bool {
        let own = self.parsed.tbs_certificate().subject_public_key_info();
        SubjectPublicKeyInfoOwned::from_der(signer.public_key()).is_ok_and(|other| other == *own)
    }

    /// Issuer and serial number, DER.
    pub(crate) fn id(&self) -> &[u8] {
        &self.id
    }

    /// Whether `signature` is one of `message` by this certificate's key.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        self.key.verify_sig(message, signature).is_ok()
    }

    /// The value in a signature that begins as this certificate's signatures do.
    pub(crate) fn value_of<'s>(&self, signature: &'s [u8]) -> Option<&'s [u8]> {
        let value = signature.strip_prefix(&self.prefix.as_ref()?[..])?;
        (value.len() == self.algorithm.max_signature_len()).then_some(value)
    }

    fn from_parts(der: Vec<u8>, parsed: x509_cert::Certificate) -> Result<Self, CertificateError> {
        let tbs = parsed.tbs_certificate();
        let encode = |error: der::Error| CertificateError::NotACertificate(error.to_string());
        let id = IssuerAndSerialNumber { issuer: tbs.issuer().clone(), serial_number: tbs.serial_number().clone() };
        let (algorithm, key) = public_key(tbs.subject_public_key_info())?;
        let prefix = crate::cms::rsa_prefix(&id, algorithm).map_err(encode)?;
        let id = id.to_der().map_err(encode)?;
        Ok(Self { der, id, prefix, algorithm, key: key.into(), parsed })
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({}, {})", self.subject(), self.algorithm)
    }
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

impl Eq for Certificate {}

/// The certificates whose signatures count.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    certificates: Vec<Certificate>,
}

impl Trust {
    /// Trusts these certificates.
    #[must_use]
    pub fn new(certificates: Vec<Certificate>) -> Self {
        Self { certificates }
    }

    /// The trusted certificates.
    #[must_use]
    pub fn certificates(&self) -> &[Certificate] {
        &self.certificates
    }
}

/// `TBSCertificate` (RFC 5280, 4.1), as far as a self-signed one needs it.
#[derive(Sequence)]
struct Tbs {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    version: u8,
    serial: SerialNumber,
    signature: AlgorithmIdentifierOwned,
    issuer: Name,
    validity: Validity,
    subject: Name,
    public_key: SubjectPublicKeyInfoOwned,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT")]
    extensions: Vec<Extension>,
}

/// `Certificate` (RFC 5280, 4.1).
#[derive(Sequence)]
struct Signed {
    tbs: Tbs,
    algorithm: AlgorithmIdentifierOwned,
    signature: BitString,
}

fn signature_algorithm(algorithm: KeyAlgorithm) -> AlgorithmIdentifierOwned {
    match algorithm {
        KeyAlgorithm::EcdsaP256 => AlgorithmIdentifierOwned { oid: rfc5912::ECDSA_WITH_SHA_256, parameters: None },
        KeyAlgorithm::EcdsaP384 => AlgorithmIdentifierOwned { oid: rfc5912::ECDSA_WITH_SHA_384, parameters: None },
        _ => AlgorithmIdentifierOwned { oid: rfc5912::SHA_256_WITH_RSA_ENCRYPTION, parameters: Some(Any::null()) },
    }
}

fn common_name(name: &str) -> Result<Name, CertificateError> {
    let length = name.chars().count();
    let error = |_| CertificateError::Name(length);
    if length == 0 || length > MAX_NAME {
        return Err(CertificateError::Name(length));
    }
    // The kernel, like most, takes either; printable text is the older and shorter form.
    let value = match PrintableString::new(name) {
        Ok(printable) => Any::encode_from(&printable),
        Err(_) => Utf8StringRef::new(name).and_then(|text| Any::encode_from(&text)),
    };
    let attribute = AttributeTypeAndValue { oid: rfc4519::CN, value: value.map_err(error)? };
    let set = SetOfVec::try_from(vec![attribute]).map_err(error)?;
    let mut sequence = RdnSequence::default();
    sequence.push(RelativeDistinguishedName::from(set));
    sequence.to_der().and_then(|der| Name::from_der(&der)).map_err(error)
}

/// 16 random bytes, positive and not small.
fn random_serial() -> Result<SerialNumber, CertificateError> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| KeyError::Failed("get random bytes".to_owned()))?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    SerialNumber::new(&bytes).map_err(|error| CertificateError::NotACertificate(error.to_string()))
}

fn validity() -> der::Result<Validity> {
    // An hour back, for verifiers whose clock is behind.
    let now = SystemTime::now() - Duration::from_secs(60 * 60);
    Ok(Validity::new(time(now)?, time(now + VALIDITY)?))
}

/// RFC 5280, 4.1.2.5: UTCTime through 2049, GeneralizedTime from then on.
fn time(at: SystemTime) -> der::Result<Time> {
    match der::asn1::UtcTime::from_system_time(at) {
        Ok(utc) => Ok(Time::UtcTime(utc)),
        Err(_) => Ok(Time::GeneralTime(der::asn1::GeneralizedTime::from_system_time(at)?)),
    }
}

fn extensions(public_key: &SubjectPublicKeyInfoOwned) -> der::Result<Vec<Extension>> {
    // RFC 5280, 4.2.1.2, method 1: an identifier, no protection.
    let key_id = digest(&SHA1_FOR_LEGACY_USE_ONLY, public_key.subject_public_key.raw_bytes());
    Ok(vec![
        extension(true, &BasicConstraints { ca: false, path_len_constraint: None })?,
        extension(true, &KeyUsage(KeyUsages::DigitalSignature.into()))?,
        extension(false, &SubjectKeyIdentifier(OctetString::new(key_id.as_ref())?))?,
    ])
}

fn extension<Content: Encode + AssociatedOid>(critical: bool, content: &Content) -> der::Result<Extension> {
    Ok(Extension { extn_id: Content::OID, critical, extn_value: OctetString::new(content.to_der()?)? })
}

fn public_key(spki: &SubjectPublicKeyInfoOwned) -> Result<(KeyAlgorithm, ParsedPublicKey), CertificateError> {
    let unsupported = |what: String| CertificateError::UnsupportedKey(what);
    let der = spki.to_der().map_err(|error| unsupported(error.to_string()))?;
    let parse = |algorithm: &'static dyn VerificationAlgorithm| {
        ParsedPublicKey::new(algorithm, &der).map_err(|error| unsupported(error.to_string()))
    };
    match spki.algorithm.oid {
        rfc5912::RSA_ENCRYPTION => {
            // RFC 3279, 2.3.1; the library does not look.
            if spki.algorithm.parameters != Some(Any::null()) {
                return Err(unsupported("RSA with parameters other than NULL".to_owned()));
            }
            let key = parse(&RSA_PKCS1_2048_8192_SHA256)?;
            let modulus = rsa_modulus_len(spki).map_err(|error| unsupported(error.to_string()))?;
            let algorithm = KeyAlgorithm::rsa_by_modulus_len(modulus)
                .ok_or_else(|| unsupported(format!("RSA of {} bits", modulus * 8)))?;
            Ok((algorithm, key))
        }
        // RFC 5480, 2.2: 4 begins an uncompressed point, the only form that the kernel takes.
        rfc5912::ID_EC_PUBLIC_KEY if spki.subject_public_key.raw_bytes().first() != Some(&4) => {
            Err(unsupported("EC with a point that is not uncompressed".to_owned()))
        }
        rfc5912::ID_EC_PUBLIC_KEY => match curve(spki) {
            Some(rfc5912::SECP_256_R_1) => Ok((KeyAlgorithm::EcdsaP256, parse(&ECDSA_P256_SHA256_ASN1)?)),
            Some(rfc5912::SECP_384_R_1) => Ok((KeyAlgorithm::EcdsaP384, parse(&ECDSA_P384_SHA384_ASN1)?)),
            _ => Err(unsupported("EC on another curve".to_owned())),
        },
        other => Err(unsupported(format!("a key of type {other}"))),
    }
}

fn curve(spki: &SubjectPublicKeyInfoOwned) -> Option<ObjectIdentifier> {
    spki.algorithm.parameters.as_ref()?.decode_as().ok()
}

/// `RSAPublicKey` (RFC 8017, A.1.1).
#[derive(Sequence)]
struct RsaPublicKey {
    modulus: der::asn1::Uint,
    exponent: der::asn1::Uint,
}

fn rsa_modulus_len(spki: &SubjectPublicKeyInfoOwned) -> der::Result<usize> {
    Ok(RsaPublicKey::from_der(spki.subject_public_key.raw_bytes())?.modulus.as_bytes().len())
}
