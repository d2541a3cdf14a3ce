// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys and passphrases are not in the environment of the commands, in their arguments, nor in anything that they say.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Output;

use common::halfway::{Halfway, Locked, PASSPHRASE};
use common::{Workshop, command, expect_code, run, text};

/// In the environment on purpose: shows that the search finds what is there.
const CONTROL: &str = "control-canary-in-the-environment";

fn count(haystack: &[u8], needle: &[u8]) -> usize {
    haystack.windows(needle.len()).filter(|window| *window == needle).count()
}

/// A process and all that it started, as far as they live.
fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|child| child.parse().ok()).flat_map(family));
    }
    all
}

#[test]
fn environment_and_arguments_hold_neither_key_nor_passphrase() {
    let workshop = Workshop::new();
    let key = Locked::new(&workshop);
    for memory in ["locked", "unlocked"] {
        let halfway = Halfway::sign(&workshop, &key, memory, |command| {
            command.env("TOUCHMARK_TEST_CONTROL", CONTROL);
        });
        for pid in family(halfway.child.id()) {
            let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap();
            let (environment, arguments) = (read("environ"), read("cmdline"));
            assert_eq!(count(&environment, CONTROL.as_bytes()), 1, "{memory}: the search finds what is there");
            for needle in [key.line.as_str(), Halfway::first()] {
                assert_eq!(count(&environment, needle.as_bytes()), 0, "{memory}: {needle} in the environment");
                assert_eq!(count(&arguments, needle.as_bytes()), 0, "{memory}: {needle} in the arguments");
            }
        }
        let output = halfway.finish();
        expect_code(&output, 0);
        assert_said(&output, &needles(&key.key()), memory);
    }
}

/// Whatever goes wrong: with a wrong passphrase, a damaged key, and things in each other's place.
#[test]
fn what_is_said_holds_neither_key_nor_passphrase() {
    let workshop = Workshop::new();
    let (locked, file) = (Locked::new(&workshop), workshop.write("file", "text"));
    let plain = workshop.path("keys/key.pem");
    let mut secrets = needles(&locked.key());
    secrets.extend(needles(&plain));
    let given = workshop.path("given");
    let wrong = workshop.path("wrong");
    fs::write(&wrong, format!("not-{PASSPHRASE}")).unwrap();
    let endless = workshop.path("endless");
    fs::write(&endless, PASSPHRASE.repeat(2000)).unwrap();
    let (damaged, cut, half) = (workshop.path("damaged"), workshop.path("cut"), workshop.path("half"));
    let text_of = |path: &Path| fs::read_to_string(path).unwrap();
    let second = text_of(&plain).lines().nth(1).unwrap().to_owned();
    let swapped: String = second.chars().rev().collect();
    fs::write(&damaged, text_of(&plain).replace(&second, &swapped)).unwrap();
    fs::write(&cut, text_of(&plain).lines().take(2).collect::<Vec<_>>().join("\n")).unwrap();
    fs::write(&half, text_of(&locked.key()).replace("ENCRYPTED ", "")).unwrap();
    secrets.push(swapped.into_bytes());

    let (certificate, foreign) = (locked.certificate(), workshop.path("keys/cert.pem"));
    let cases: [(&str, &Path, &Path, &Path, i32); 10] = [
        ("all is well", &locked.key(), &certificate, &given, 0),
        ("an open key", &plain, &foreign, &given, 0),
        ("wrong passphrase", &locked.key(), &certificate, &wrong, 3),
        ("endless passphrase", &locked.key(), &certificate, &endless, 3),
        ("another certificate", &locked.key(), &foreign, &given, 3),
        ("damaged", &damaged, &foreign, &given, 3),
        ("cut off", &cut, &foreign, &given, 3),
        ("named wrongly", &half, &foreign, &given, 3),
        ("the passphrase as the key", &given, &foreign, &given, 3),
        ("the key as certificate and passphrase", &plain, &plain, &plain, 3),
    ];
    for (what, key, certificate, passphrase, code) in cases {
        let with_key = |first: &[&str], last: &[&str]| {
            let key = ["--key", text(key), "--cert", text(certificate), "--passphrase-file", text(passphrase)];
            command(first.iter().chain(&key).chain(last))
                .env("RUST_BACKTRACE", "full")
                .env("RUST_LOG", "trace")
                .output()
                .unwrap()
        };
        let signed = with_key(&["sign", "--json"], &[text(&file)]);
        expect_code(&signed, code);
        assert_said(&signed, &secrets, what);
        let list = workshop.path("list");
        let revoke =
            ["revoke", "--reason", "test", "--out", text(&list), "--trust", text(&foreign), "--file", text(&file)];
        assert_said(&with_key(&revoke, &[]), &secrets, what);
        assert_said(&with_key(&["order", "sign"], &[text(&file)]), &secrets, what);
    }
}

/// What must not be said: the passphrase, the lines of the PEM, and the private number as bytes and as digits.
fn needles(key: &Path) -> Vec<Vec<u8>> {
    let pem = fs::read_to_string(key).unwrap();
    let lines = pem.lines().filter(|line| !line.starts_with("-----") && line.len() > 20);
    let mut all: Vec<Vec<u8>> = lines.map(|line| line.as_bytes().to_vec()).collect();
    assert!(!all.is_empty(), "a key has lines");
    all.push(PASSPHRASE.as_bytes().to_vec());
    let shown =
        run("openssl", &["pkey", "-in", text(key), "-passin", &format!("pass:{PASSPHRASE}"), "-noout", "-text"]);
    let shown = String::from_utf8(shown.expect("openssl is installed").stdout).unwrap();
    let digits: String = shown
        .lines()
        .skip_while(|line| !line.starts_with("priv:"))
        .skip(1)
        .take_while(|line| line.starts_with(' '))
        .flat_map(|line| line.chars().filter(char::is_ascii_hexdigit))
        .collect();
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    let bytes: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
    assert!(bytes.len() >= 32, "expected the private number, found {shown}");
    let decimal = bytes[1..9].iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte}, ").unwrap();
        text
    });
    all.extend([digits.to_uppercase().into_bytes(), digits.into_bytes(), bytes, decimal.into_bytes()]);
    all
}

#[track_caller]
fn assert_said(output: &Output, secrets: &[Vec<u8>], what: &str) {
    assert!(!output.stdout.is_empty() || !output.stderr.is_empty() || output.status.success(), "{what}: says why");
    for secret in secrets {
        let found = count(&output.stdout, secret) + count(&output.stderr, secret);
        assert_eq!(found, 0, "{what}: {} in {output:?}", String::from_utf8_lossy(secret));
    }
}
