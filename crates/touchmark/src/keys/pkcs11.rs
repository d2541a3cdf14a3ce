// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys that stay in a PKCS#11 token.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, anyhow};
use aws_lc_rs::digest::{SHA256, SHA384, digest};
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::Mechanism;
use cryptoki::object::{Attribute, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::AuthPin;
use touchmark_sign::certificate::{Certificate, Trust};
use touchmark_sign::cms;
use touchmark_sign::digest::Digest;
use touchmark_sign::key::{KeyAlgorithm, KeyError, Signer};
use touchmark_sign::statement::{Kind, Statement};
use touchmark_sys::secret::Secret;
use x509_cert::der::{Decode, Encode};

use super::passphrase;
use super::uri::Pkcs11Uri;

/// Finds the module when the URI names none.
const MODULE_VARIABLE: &str = "TOUCHMARK_PKCS11_MODULE";
/// p11-kit's module, which offers all tokens that the system knows.
const DEFAULT_MODULE: &str = "p11-kit-proxy.so";

/// A private key in a token.
pub(super) struct Token {
    context: Pkcs11,
    slot: Slot,
    key: ObjectHandle,
    /// Sessions that are not in use: a session does one thing at a time, so each thread takes its own.
    idle: Mutex<Vec<Session>>,
    algorithm: KeyAlgorithm,
    public_key: Vec<u8>,
}

impl Token {
    /// Finds the key that the URI names, and makes sure by a trial signature that the certificate is for it.
    pub(super) fn open(uri: &str, certificate: &Certificate, pin_file: Option<&Path>) -> anyhow::Result<Self> {
        let uri = Pkcs11Uri::parse(uri)?;
        let module = uri
            .module_path
            .clone()
            .or_else(|| std::env::var_os(MODULE_VARIABLE).map(PathBuf::from))
            .unwrap_or_else(|| DEFAULT_MODULE.into());
        let context = Pkcs11::new(&module).with_context(|| {
            format!(
                "cannot load the PKCS#11 module {} (name one: module-path in the URI, or {MODULE_VARIABLE})",
                module.display()
            )
        })?;
        match context.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
            Ok(()) | Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => {}
            Err(error) => return Err(error).context("cannot start the PKCS#11 module"),
        }
        let slot = find_slot(&context, &uri)?;
        let session = context.open_ro_session(slot).context("cannot open a session with the token")?;
        log_in(&context, slot, &session, &uri, pin_file)?;
        let key = find_key(&session, &uri)?;
        let token = Self {
            context,
            slot,
            key,
            idle: Mutex::new(vec![session]),
            algorithm: certificate.algorithm(),
            public_key: public_key(certificate)?,
        };
        // Of no file: none has a digest of zeros.
        let trial = Statement::new(Kind::File, Digest::from([0; 32]));
        let signature = cms::sign(&trial, &token, certificate).context("cannot sign with the token's key")?;
        cms::verify(&signature, &trial, &Trust::new(vec![certificate.clone()])).map_err(|_| {
            anyhow!("expected a certificate for the token's key, found one for another key ({})", certificate.subject())
        })?;
        Ok(token)
    }

    fn sign_in(&self, session: &Session, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let failed = |error: Error| KeyError::Failed(format!("sign with the token: {error}"));
        if let KeyAlgorithm::EcdsaP256 | KeyAlgorithm::EcdsaP384 = self.algorithm {
            // Not CKM_ECDSA_SHA256: older tokens only take the digest.
            let hash = if self.algorithm == KeyAlgorithm::EcdsaP384 { &SHA384 } else { &SHA256 };
            let digest = digest(hash, message);
            let raw = session.sign(&Mechanism::Ecdsa, self.key, digest.as_ref()).map_err(failed)?;
            return ecdsa_der(&raw)
                .ok_or_else(|| KeyError::Failed(format!("read an ECDSA value of {} bytes", raw.len())));
        }
        session.sign(&Mechanism::Sha256RsaPkcs, self.key, message).map_err(failed)
    }
}

impl Signer for Token {
    fn algorithm(&self) -> KeyAlgorithm {
        self.algorithm
    }

    fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let lock = || self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let idle = lock().pop();
        let session = match idle {
            Some(session) => session,
            // The login counts for all sessions of the process.
            None => self
                .context
                .open_ro_session(self.slot)
                .map_err(|error| KeyError::Failed(format!("open a session with the token: {error}")))?,
        };
        let outcome = self.sign_in(&session, message);
        lock().push(session);
        outcome
    }
}

fn public_key(certificate: &Certificate) -> anyhow::Result<Vec<u8>> {
    let parsed = x509_cert::Certificate::from_der(certificate.der())?;
    Ok(parsed.tbs_certificate().subject_public_key_info().to_der()?)
}

fn find_slot(context: &Pkcs11, uri: &Pkcs11Uri) -> anyhow::Result<Slot> {
    let slots = context.get_slots_with_token().context("cannot list the tokens")?;
    let mut seen = Vec::new();
    let mut fitting = Vec::new();
    for slot in slots {
        let Ok(info) = context.get_token_info(slot) else { continue };
        if !info.token_initialized() {
            continue;
        }
        let fits = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        if fits(&uri.token, info.label())
            && fits(&uri.serial, info.serial_number())
            && fits(&uri.manufacturer, info.manufacturer_id())
            && fits(&uri.model, info.model())
            && uri.slot_id.is_none_or(|wanted| wanted == slot.id())
        {
            fitting.push(slot);
        }
        seen.push(format!("`{}` (serial {}, slot {})", info.label(), info.serial_number(), slot.id()));
    }
    match fitting[..] {
        [slot] => Ok(slot),
        [] if seen.is_empty() => anyhow::bail!("expected a token, found none"),
        [] => anyhow::bail!("expected a token that fits the URI, found only {}", seen.join(", ")),
        _ => anyhow::bail!("expected one token that fits the URI, found several: {}", seen.join(", ")),
    }
}

fn log_in(
    context: &Pkcs11,
    slot: Slot,
    session: &Session,
    uri: &Pkcs11Uri,
    pin_file: Option<&Path>,
) -> anyhow::Result<()> {
    let info = context.get_token_info(slot).context("cannot ask the token")?;
    if !info.login_required() {
        return Ok(());
    }
    let pin: Option<Secret> = if let Some(value) = &uri.pin_value {
        Some(Secret::copy_of(value)?)
    } else if let Some(file) = pin_file.or(uri.pin_source.as_deref()) {
        Some(passphrase::from_file(file)?)
    } else if info.protected_authentication_path() {
        // The token has a keypad of its own.
        None
    } else {
        let asked =
            passphrase::ask(&format!("PIN of the token `{}`: ", info.label())).context("cannot read the PIN")?;
        Some(asked.context(
            "expected the token's PIN: --passphrase-file FILE, pin-source in the URI, or a terminal to ask on",
        )?)
    };
    let pin = pin.map(|pin| anyhow::Ok(AuthPin::from(std::str::from_utf8(&pin).context("expected a PIN in UTF-8")?)));
    match session.login(UserType::User, pin.transpose()?.as_ref()) {
        Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(()),
        Err(Error::Pkcs11(RvError::PinIncorrect, _)) => {
            anyhow::bail!("the PIN of the token `{}` is wrong", info.label())
        }
        Err(Error::Pkcs11(RvError::PinLocked, _)) => anyhow::bail!("the PIN of the token `{}` is locked", info.label()),
        Err(error) => Err(error).with_context(|| format!("cannot log in to the token `{}`", info.label())),
    }
}

fn find_key(session: &Session, uri: &Pkcs11Uri) -> anyhow::Result<ObjectHandle> {
    let mut template = vec![Attribute::Class(ObjectClass::PRIVATE_KEY), Attribute::Sign(true)];
    template.extend(uri.object.clone().map(Attribute::Label));
    template.extend(uri.id.clone().map(Attribute::Id));
    match session.find_objects(&template).context("cannot look for the key in the token")?[..] {
        [key] => Ok(key),
        [] => anyhow::bail!("expected a private key that fits the URI in the token, found none"),
        ref several => anyhow::bail!(
            "expected one private key that fits the URI in the token, found {}; name it by object or id",
            several.len()
        ),
    }
}

/// `Ecdsa-Sig-Value` (RFC 3279, 2.2.3) of the token's two numbers side by side.
fn ecdsa_der(raw: &[u8]) -> Option<Vec<u8>> {
    if raw.is_empty() || raw.len() % 2 != 0 || raw.len() > 96 {
        return None;
    }
    let (r, s) = raw.split_at(raw.len() / 2);
    let body = [integer(r)?, integer(s)?].concat();
    Some([&[0x30, u8::try_from(body.len()).ok().filter(|length| *length < 0x80)?][..], &body].concat())
}

fn integer(number: &[u8]) -> Option<Vec<u8>> {
    let start = number.iter().position(|byte| *byte != 0)?;
    let digits = number.get(start..)?;
    // A leading one bit would make it negative.
    let pad: &[u8] = if digits.first()? & 0x80 == 0 { &[] } else { &[0] };
    let length = u8::try_from(pad.len() + digits.len()).ok()?;
    Some([&[0x02, length], pad, digits].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ecdsa_values_become_der() {
        assert_eq!(ecdsa_der(&[0, 5, 0x80, 1]).as_deref(), Some(&[0x30, 8, 2, 1, 5, 2, 3, 0, 0x80, 1][..]));
        for bad in [&[][..], &[1, 2, 3], &[0, 0, 1, 1], &[1; 98]] {
            assert_eq!(ecdsa_der(bad), None);
        }
    }
}
