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

/// A URI that cannot be understood. What is found is quoted only where it cannot be a PIN, or a part of one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UriError {
    /// Not `name=value`.
    #[error("expected name=value in the PKCS#11 URI, found `{0}` without `=`")]
    NoValue(String),
    /// An attribute that would not be looked at.
    #[error(
        "expected token, serial, manufacturer, model, slot-id, object, id, type, module-path, pin-value or pin-source in the PKCS#11 URI, found `{0}`"
    )]
    UnknownName(String),
    /// The same attribute again (RFC 7512, 2.3 forbids it).
    #[error("expected `{0}` once in the PKCS#11 URI, found it twice")]
    Twice(String),
    /// `%` without two hexadecimal digits, in the value of this attribute.
    #[error("expected two hexadecimal digits after each `%` of `{0}` in the PKCS#11 URI, found something else")]
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
            let (name, value) = attribute.split_once('=').ok_or_else(|| UriError::NoValue(name_in(attribute)))?;
            uri.set(name, decode(value).ok_or_else(|| UriError::Percent(name.to_owned()))?)?;
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
            unknown => return Err(UriError::UnknownName(name_in(unknown))),
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
    // What is no path may be the PIN, put in the wrong place.
    let wrong = || UriError::Value {
        name: "pin-source",
        expected: "the absolute path of a file",
        found: "something else".to_owned(),
    };
    let path = value.strip_prefix(b"file:").unwrap_or(&value);
    let path = path.strip_prefix(b"//").unwrap_or(path);
    if path.starts_with(b"/") { Ok(OsString::from_vec(path.to_vec()).into()) } else { Err(wrong()) }
}

/// What comes before anything that no name has: the rest may be a value, after another sign than `=`.
fn name_in(attribute: &str) -> String {
    attribute.chars().take_while(|sign| sign.is_ascii_alphabetic() || *sign == '-').collect()
}

/// The URI without its query, which may hold the PIN.
pub(super) fn without_query(uri: &str) -> &str {
    uri.split('?').next().unwrap_or_default()
}

/// `None` where `%` comes without two hexadecimal digits.
fn decode(value: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok().filter(|text| !text.starts_with('+'))?;
        decoded.push(u8::from_str_radix(digits, 16).ok()?);
        rest = rest.get(2..).unwrap_or_default();
    }
    Some(decoded)
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
            ("pkcs11:id=%1", "`%` of `id`"),
            ("pkcs11:id=%+1", "`%` of `id`"),
            ("pkcs11:id=%zz", "`%` of `id`"),
            ("pkcs11:slot-id=-1", "decimal number"),
            ("pkcs11:type=cert", "private"),
            ("pkcs11:?pin-source=|cat", "absolute path"),
        ] {
            let error = Pkcs11Uri::parse(bad).unwrap_err().to_string();
            assert!(error.contains(part), "{bad}: {error}");
        }
    }

    #[test]
    fn a_pin_is_never_quoted() {
        for slip in
            ["pin-value:4711", "pin-value 4711", "pin-value=47%11%zz", "pin-value:4711=", "pin-source=4711", "4711"]
        {
            let error = Pkcs11Uri::parse(&format!("pkcs11:token=x?{slip}")).unwrap_err().to_string();
            assert!(!error.contains("47") && !error.contains("11`"), "{slip}: {error}");
        }
        assert_eq!(without_query("pkcs11:object=x?pin-value=4711"), "pkcs11:object=x");
    }
}
