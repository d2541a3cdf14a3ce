// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PKCS#11 URIs (RFC 7512): which key, in which token, through which module.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use zeroize::Zeroizing;

const SCHEME: &str = "pkcs11:";

/// Whether the text is meant to be such a URI.
pub(super) fn is_uri(text: &str) -> bool {
    text.get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
}

/// What a URI asks for; everything named must fit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pkcs11Uri {
    /// The token's label.
    pub(super) token: Option<String>,
    /// The token's serial number.
    pub(super) serial: Option<String>,
    /// The token's manufacturer.
    pub(super) manufacturer: Option<String>,
    /// The token's model.
    pub(super) model: Option<String>,
    /// The slot's number.
    pub(super) slot_id: Option<u64>,
    /// The key's label.
    pub(super) object: Option<Vec<u8>>,
    /// The key's identifier.
    pub(super) id: Option<Vec<u8>>,
    /// The module to load.
    pub(super) module_path: Option<PathBuf>,
    /// The PIN itself.
    pub(super) pin_value: Option<Zeroizing<Vec<u8>>>,
    /// The file that holds the PIN.
    pub(super) pin_source: Option<PathBuf>,
}

/// A URI that cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UriError {
    /// Not `name=value`.
    #[error("expected name=value in the PKCS#11 URI, found `{0}`")]
    NoValue(String),
    /// An attribute that would not be looked at.
    #[error(
        "expected token, serial, manufacturer, model, slot-id, object, id, type, module-path, pin-value or pin-source in the PKCS#11 URI, found `{0}`"
    )]
    UnknownName(String),
    /// The same attribute again (RFC 7512, 2.3 forbids it).
    #[error("expected `{0}` once in the PKCS#11 URI, found it twice")]
    Twice(String),
    /// `%` without two hexadecimal digits.
    #[error("expected two hexadecimal digits after `%` in the PKCS#11 URI, found `{0}`")]
    Percent(String),
    /// A value of the wrong form.
    #[error("expected {expected} for `{name}` in the PKCS#11 URI, found `{found}`")]
    Value {
        /// The attribute.
        name: &'static str,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
}

impl Pkcs11Uri {
    /// Reads `pkcs11:` path attributes `;`-separated, then `?` and query attributes `&`-separated.
    pub(super) fn parse(text: &str) -> Result<Self, UriError> {
        let rest = text.get(SCHEME.len()..).unwrap_or_default();
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut uri = Self::default();
        for attribute in path.split(';').chain(query.split('&')).filter(|attribute| !attribute.is_empty()) {
            let (name, value) = attribute.split_once('=').ok_or_else(|| UriError::NoValue(attribute.to_owned()))?;
            uri.set(name, decode(value)?)?;
        }
        Ok(uri)
    }

    fn set(&mut self, name: &str, value: Vec<u8>) -> Result<(), UriError> {
        let twice = match name {
            "token" => self.token.replace(text("token", value)?).is_some(),
            "serial" => self.serial.replace(text("serial", value)?).is_some(),
            "manufacturer" => self.manufacturer.replace(text("manufacturer", value)?).is_some(),
            "model" => self.model.replace(text("model", value)?).is_some(),
            "slot-id" => self.slot_id.replace(number(value)?).is_some(),
            "object" => self.object.replace(value).is_some(),
            "id" => self.id.replace(value).is_some(),
            "type" if value == b"private" => false,
            "type" => {
                return Err(UriError::Value { name: "type", expected: "private", found: text("type", value)? });
            }
            "module-path" => self.module_path.replace(OsString::from_vec(value).into()).is_some(),
            "pin-value" => self.pin_value.replace(Zeroizing::new(value)).is_some(),
            "pin-source" => self.pin_source.replace(pin_source(value)?).is_some(),
            unknown => return Err(UriError::UnknownName(unknown.to_owned())),
        };
        if twice { Err(UriError::Twice(name.to_owned())) } else { Ok(()) }
    }
}

fn text(name: &'static str, value: Vec<u8>) -> Result<String, UriError> {
    String::from_utf8(value).map_err(|error| UriError::Value {
        name,
        expected: "UTF-8 text",
        found: String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

fn number(value: Vec<u8>) -> Result<u64, UriError> {
    let found = text("slot-id", value)?;
    found.parse().map_err(|_| UriError::Value { name: "slot-id", expected: "a decimal number", found })
}

/// A path, or a `file:` URI without a host; a command (`|...`) is not run.
fn pin_source(value: Vec<u8>) -> Result<PathBuf, UriError> {
    let wrong = |found: &[u8]| UriError::Value {
        name: "pin-source",
        expected: "the absolute path of a file",
        found: String::from_utf8_lossy(found).into_owned(),
    };
    let path = value.strip_prefix(b"file:").unwrap_or(&value);
    let path = path.strip_prefix(b"//").unwrap_or(path);
    if path.starts_with(b"/") { Ok(OsString::from_vec(path.to_vec()).into()) } else { Err(wrong(&value)) }
}

fn decode(value: &str) -> Result<Vec<u8>, UriError> {
    let mut decoded = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        let digits =
            rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()).filter(|text| !text.starts_with('+'));
        let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
            let found = String::from_utf8_lossy(rest.get(..2).unwrap_or(rest)).into_owned();
            return Err(UriError::Percent(found));
        };
        decoded.push(byte);
        rest = rest.get(2..).unwrap_or_default();
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_attributes() {
        let uri = Pkcs11Uri::parse(
            "pkcs11:token=The%20Token;manufacturer=M;model=m;serial=4711;slot-id=3;object=my%20key;type=private;id=%01%ffA\
             ?module-path=/usr/lib/x.so&pin-value=1234&pin-source=file:///etc/pin",
        );
        let expected = Pkcs11Uri {
            token: Some("The Token".to_owned()),
            serial: Some("4711".to_owned()),
            manufacturer: Some("M".to_owned()),
            model: Some("m".to_owned()),
            slot_id: Some(3),
            object: Some(b"my key".to_vec()),
            id: Some(vec![1, 0xff, b'A']),
            module_path: Some("/usr/lib/x.so".into()),
            pin_value: Some(Zeroizing::new(b"1234".to_vec())),
            pin_source: Some("/etc/pin".into()),
        };
        assert_eq!(uri, Ok(expected));
        assert_eq!(Pkcs11Uri::parse("pkcs11:"), Ok(Pkcs11Uri::default()));
        assert!(is_uri("PKCS11:x") && !is_uri("pkcs1") && !is_uri("key.pem"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (bad, part) in [
            ("pkcs11:token", "`token`"),
            ("pkcs11:tokn=x", "`tokn`"),
            ("pkcs11:id=1;id=2", "found it twice"),
            ("pkcs11:id=%1", "found `1`"),
            ("pkcs11:id=%+1", "found `+1`"),
            ("pkcs11:id=%zz", "found `zz`"),
            ("pkcs11:slot-id=-1", "decimal number"),
            ("pkcs11:type=cert", "private"),
            ("pkcs11:?pin-source=|cat", "absolute path"),
        ] {
            let error = Pkcs11Uri::parse(bad).unwrap_err().to_string();
            assert!(error.contains(part), "{bad}: {error}");
        }
    }
}
