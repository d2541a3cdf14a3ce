// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whose signatures count, and what does not count any more although it was signed.

use touchmark_sign::certificate::{Certificate, Trust};
use touchmark_sign::cms::{self, VerifyError};
use touchmark_sign::digest::Digest;
use touchmark_sign::revocation::{Reason, RevocationList, Target};
use touchmark_sign::statement::Statement;

/// Trusted certificates and the revocation list that counts beside them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Authority {
    /// All that were named.
    named: Trust,
    /// Those that the list leaves.
    remaining: Trust,
    list: Option<RevocationList>,
    revokes_signatures: bool,
}

/// What the list says of something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("revoked: {target}: {reason}")]
pub(crate) struct Revoked {
    pub(crate) target: Target,
    pub(crate) reason: Reason,
}

/// Why a signature does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Doubt {
    /// It does not hold.
    #[error(transparent)]
    Signature(#[from] VerifyError),
    /// It, or its signer, is revoked.
    #[error(transparent)]
    Revoked(#[from] Revoked),
}

impl Authority {
    /// These certificates, less what the list revokes. The list's own signature was checked.
    pub(crate) fn new(named: Trust, list: Option<RevocationList>) -> Self {
        let remaining = list.as_ref().map_or_else(|| named.clone(), |list| list.remaining(&named));
        let any = |wanted: fn(&Target) -> bool| list.as_ref().is_some_and(|list| list.entries.keys().any(wanted));
        Self { revokes_signatures: any(|target| matches!(target, Target::Signature(_))), named, remaining, list }
    }

    /// Other certificates, less what the same list revokes.
    pub(crate) fn with(&self, certificates: Vec<Certificate>) -> Self {
        Self::new(Trust::new(certificates), self.list.clone())
    }

    /// The certificates whose signatures count.
    pub(crate) fn certificates(&self) -> &[Certificate] {
        self.remaining.certificates()
    }

    /// The revocation list, if there is one.
    pub(crate) fn list(&self) -> Option<&RevocationList> {
        self.list.as_ref()
    }

    /// Checks a signature: by a certificate that counts, and not revoked itself.
    pub(crate) fn verify(&self, der: &[u8], statement: &Statement) -> Result<&Certificate, Doubt> {
        let certificate = match cms::verify(der, statement, &self.remaining) {
            Ok(certificate) => certificate,
            Err(error) => {
                let revoked = cms::verify(der, statement, &self.named).ok();
                return Err(match revoked.and_then(|signer| self.find(Target::Certificate(signer.fingerprint()))) {
                    Some(revoked) => revoked.into(),
                    None => error.into(),
                });
            }
        };
        if self.revokes_signatures {
            let id = cms::signature_id(der).map_err(VerifyError::from)?;
            self.find(Target::Signature(id)).map_or(Ok(()), Err)?;
        }
        Ok(certificate)
    }

    /// What the list says of a file with this SHA-256.
    pub(crate) fn revoked_file(&self, whole: Digest) -> Option<Revoked> {
        self.find(Target::File(whole))
    }

    /// What the list says of a sealed file with this fs-verity digest.
    pub(crate) fn revoked_seal(&self, sealed: Digest) -> Option<Revoked> {
        self.find(Target::FsVerity(sealed))
    }

    /// Whether the list speaks of files at all: otherwise an unsigned file need not be read.
    pub(crate) fn revokes_files(&self) -> bool {
        let of_file = |target: &Target| matches!(target, Target::File(_) | Target::FsVerity(_));
        self.list.as_ref().is_some_and(|list| list.entries.keys().any(of_file))
    }

    fn find(&self, target: Target) -> Option<Revoked> {
        let reason = self.list.as_ref()?.reason(&target)?.clone();
        Some(Revoked { target, reason })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use touchmark_sign::key::{KeyAlgorithm, PrivateKey};
    use touchmark_sign::statement::Kind;

    use super::*;

    struct Signed {
        trust: Trust,
        statement: Statement,
        /// By each of the certificates.
        signatures: [Vec<u8>; 2],
    }

    fn signed() -> Signed {
        let statement = Statement::new(Kind::File, Digest::of(b"x"));
        let made = ["one", "two"].map(|name| {
            let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
            let certificate = Certificate::self_signed(&key, name).unwrap();
            let der = cms::sign(&statement, &key, &certificate).unwrap();
            (certificate, der)
        });
        let [(one, first), (two, second)] = made;
        Signed { trust: Trust::new(vec![one, two]), statement, signatures: [first, second] }
    }

    fn list(target: Target) -> Option<RevocationList> {
        let entries = BTreeMap::from([(target, Reason::new("lost").unwrap())]);
        Some(RevocationList { version: 1, issued: 0, entries })
    }

    #[test]
    fn a_revoked_certificate_takes_its_signatures_with_it() {
        let Signed { trust, statement, signatures: [first, second] } = signed();
        let lost = trust.certificates()[0].fingerprint();
        let authority = Authority::new(trust, list(Target::Certificate(lost)));
        let doubt = authority.verify(&first, &statement).unwrap_err();
        assert_eq!(doubt.to_string(), format!("revoked: certificate {lost}: lost"));
        assert!(authority.verify(&second, &statement).is_ok());
        assert_eq!(authority.certificates().len(), 1);
    }

    #[test]
    fn a_revoked_signature_falls_alone() {
        let Signed { trust, statement, signatures: [first, second] } = signed();
        let id = cms::signature_id(&first).unwrap();
        let authority = Authority::new(trust, list(Target::Signature(id)));
        assert!(matches!(authority.verify(&first, &statement), Err(Doubt::Revoked(_))));
        assert!(authority.verify(&second, &statement).is_ok());
        let other = Statement::new(Kind::File, Digest::of(b"y"));
        assert!(matches!(authority.verify(&first, &other), Err(Doubt::Signature(_))));
    }

    #[test]
    fn a_revoked_file_is_found_by_its_content() {
        let authority = Authority::new(Trust::default(), list(Target::File(Digest::of(b"x"))));
        assert!(authority.revoked_file(Digest::of(b"x")).is_some() && authority.revokes_files());
        assert_eq!(authority.revoked_file(Digest::of(b"y")), None);
    }
}
