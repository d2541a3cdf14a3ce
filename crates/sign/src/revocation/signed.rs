// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text with its signature behind it.

use der::pem::LineEnding;

use super::{MAX_SIZE, RevocationError, RevocationList, text};
use crate::certificate::{Certificate, Trust};
use crate::cms;
use crate::digest::Digest;
use crate::key::Signer;
use crate::statement::{Kind, Statement};

const LABEL: &str = "CMS";
const BEGIN: &str = "-----BEGIN CMS-----\n";

/// A list that was read; its signature is still to be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedList {
    /// What it says.
    pub list: RevocationList,
    statement: Statement,
    signature: Vec<u8>,
}

impl SignedList {
    /// Reads a signed list; only the one encoding is taken.
    ///
    /// # Errors
    /// What is not as expected.
    pub fn parse(bytes: &[u8]) -> Result<Self, RevocationError> {
        if bytes.len() > MAX_SIZE {
            return Err(RevocationError::TooLarge { expected: MAX_SIZE, unit: "bytes", found: bytes.len() });
        }
        let malformed = |expected, found: String| RevocationError::Malformed { expected, found };
        let whole = std::str::from_utf8(bytes).map_err(|error| malformed("UTF-8", error.to_string()))?;
        let (body, pem) = match whole.find(BEGIN) {
            Some(at) => whole.split_at(at),
            None => return Err(malformed("a block `-----BEGIN CMS-----` behind the entries", "none".to_owned())),
        };
        let list = text::decode(body)?;
        let (label, signature) = der::pem::decode_vec(pem.as_bytes())
            .map_err(|error| malformed("a PEM block at the end", error.to_string()))?;
        if label != LABEL || encode_signature(&signature)? != pem {
            return Err(malformed("one PEM block, and nothing behind it", "another spelling".to_owned()));
        }
        Ok(Self { list, statement: statement(body), signature })
    }

    /// Checks the signature, and returns the certificate that vouches for the list: a trusted one that is not on it.
    ///
    /// # Errors
    /// Why the signature does not count.
    pub fn verify<'t>(&self, trust: &'t Trust) -> Result<&'t Certificate, RevocationError> {
        let holds = |trust: &Trust| cms::verify(&self.signature, &self.statement, trust).map(Certificate::subject);
        let left =
            trust.certificates().iter().filter(|certificate| self.list.certificate_reason(certificate).is_none());
        // One by one: two certificates may be for the same key, and one of them revoked.
        for certificate in left {
            if holds(&Trust::new(vec![certificate.clone()])).is_ok() {
                return Ok(certificate);
            }
        }
        Err(holds(trust).map_or_else(RevocationError::from, RevocationError::RevokesItself))
    }
}

pub(super) fn sign(
    list: &RevocationList,
    signer: &dyn Signer,
    certificate: &Certificate,
) -> Result<String, RevocationError> {
    if list.certificate_reason(certificate).is_some() {
        return Err(RevocationError::RevokesItself(certificate.subject()));
    }
    let mut whole = text::encode(list)?;
    let signature = cms::sign(&statement(&whole), signer, certificate)?;
    whole.push_str(&encode_signature(&signature)?);
    if whole.len() > MAX_SIZE {
        return Err(RevocationError::TooLarge { expected: MAX_SIZE, unit: "bytes", found: whole.len() });
    }
    Ok(whole)
}

fn statement(body: &str) -> Statement {
    Statement::new(Kind::Revocation, Digest::of(body.as_bytes()))
}

fn encode_signature(der: &[u8]) -> Result<String, RevocationError> {
    der::pem::encode_string(LABEL, LineEnding::LF, der)
        .map_err(|error| RevocationError::Malformed { expected: "a signature", found: error.to_string() })
}
