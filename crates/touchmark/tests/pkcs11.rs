// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys in a PKCS#11 token: SoftHSM2, with a token of the test's own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{Workshop, expect_code, objects, skip, stderr, text, word};

/// Where Debian and others put the module.
const MODULES: &[&str] = &[
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
    "/usr/lib64/softhsm/libsofthsm2.so",
];

/// A token with a key of the workshop's algorithm in it, so that the workshop's certificate fits.
struct Hsm {
    workshop: Workshop,
    config: PathBuf,
    module: &'static str,
}

impl Hsm {
    fn new(algorithm: &str) -> Option<Self> {
        let module = MODULES.iter().copied().find(|module| Path::new(module).exists())?;
        let workshop = Workshop::with_key(algorithm);
        let config = workshop.path("softhsm2.conf");
        fs::create_dir(workshop.path("tokens")).unwrap();
        fs::write(&config, format!("directories.tokendir = {}\n", text(&workshop.path("tokens")))).unwrap();
        let hsm = Self { workshop, config, module };
        hsm.util(&["--init-token", "--free", "--label", "Build token", "--so-pin", "12345678", "--pin", "4711"])?;
        let key = hsm.workshop.path("keys/key.pem");
        for (label, id) in [("signing key", "a1b2"), ("second", "c3")] {
            let import =
                ["--import", text(&key), "--token", "Build token", "--label", label, "--id", id, "--pin", "4711"];
            hsm.util(&import)?;
        }
        Some(hsm)
    }

    /// Runs softhsm2-util, which must succeed if it is there.
    fn util(&self, arguments: &[&str]) -> Option<()> {
        let output = Command::new("softhsm2-util").args(arguments).env("SOFTHSM2_CONF", &self.config).output().ok()?;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        Some(())
    }

    fn sign(&self, uri: &str, more: &[&str]) -> Output {
        let cert = self.workshop.path("keys/cert.pem");
        let mut command = Command::new(env!("CARGO_BIN_EXE_touchmark"));
        command.args(["sign", "--key", uri, "--cert", text(&cert), "--json", "-r"]).args(more);
        command.arg(self.workshop.path("tree")).stdin(Stdio::null());
        command.env("SOFTHSM2_CONF", &self.config).env("TOUCHMARK_PKCS11_MODULE", self.module).output().unwrap()
    }
}

#[test]
fn keys_in_a_token_sign_like_keys_in_a_file() {
    for algorithm in ["rsa2048", "ecdsa-p256", "ecdsa-p384"] {
        let Some(hsm) = Hsm::new(algorithm) else {
            return skip("PKCS#11: SoftHSM2 is not installed (apt install softhsm2)");
        };
        for number in 0..20 {
            hsm.workshop.copy("/bin/true", &format!("{number:02}"));
        }
        let pin = hsm.workshop.path("pin");
        fs::write(&pin, "4711\n").unwrap();
        let uris = [
            ("pkcs11:token=Build%20token;object=signing%20key?pin-value=4711".to_owned(), vec![]),
            (format!("pkcs11:token=Build%20token;id=%c3;type=private?pin-source={}", text(&pin)), vec![]),
            (format!("pkcs11:id=%a1%b2?module-path={}", hsm.module), vec!["--passphrase-file", text(&pin)]),
        ];
        for (uri, more) in uris {
            let signed = hsm.sign(&uri, &[&more[..], &["--jobs", "4"]].concat());
            expect_code(&signed, 0);
            assert!(objects(&signed).iter().all(|object| word(object, "status") == "signed"), "{uri}");
            let (verified, found) = hsm.workshop.verify(["-r", text(&hsm.workshop.path("tree"))]);
            assert_eq!((verified, found.len()), (0, 20), "{algorithm} {uri}");
        }
    }
}

#[test]
fn what_is_wrong_with_a_token_is_said() {
    let Some(hsm) = Hsm::new("rsa2048") else {
        return skip("PKCS#11: SoftHSM2 is not installed (apt install softhsm2)");
    };
    hsm.workshop.write("f", "text");
    for (uri, message) in [
        ("pkcs11:token=Other?pin-value=4711", "found only `Build token`"),
        ("pkcs11:object=none?pin-value=4711", "expected a private key that fits the URI in the token, found none"),
        ("pkcs11:?pin-value=4711", "found 2; name it by object or id"),
        ("pkcs11:object=second?pin-value=1111", "the PIN of the token `Build token` is wrong"),
        ("pkcs11:object=second", "expected the token's PIN: --passphrase-file FILE"),
        ("pkcs11:objet=second", "in the PKCS#11 URI, found `objet`"),
        ("pkcs11:object=second?module-path=/nowhere.so", "cannot load the PKCS#11 module /nowhere.so"),
    ] {
        let signed = hsm.sign(uri, &[]);
        expect_code(&signed, 3);
        assert!(stderr(&signed).contains(message), "{uri}: {}", stderr(&signed));
    }
    // Another key of the same algorithm.
    let other = Workshop::with_key("rsa2048");
    fs::copy(other.path("keys/cert.pem"), hsm.workshop.path("keys/cert.pem")).unwrap();
    let signed = hsm.sign("pkcs11:object=second?pin-value=4711", &[]);
    expect_code(&signed, 3);
    assert!(stderr(&signed).contains("expected a certificate for the token's key"), "{}", stderr(&signed));
}
