// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The invariants of ARCHITECTURE.md that can be checked by looking at the tree.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// The files that git tracks, or would.
fn tracked() -> Vec<PathBuf> {
    let listing = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git is installed");
    assert!(listing.status.success(), "expected a git checkout");
    let text = String::from_utf8(listing.stdout).expect("names in UTF-8");
    text.lines().map(|line| root().join(line)).filter(|path| path.exists()).collect()
}

fn with_ending(endings: &[&str]) -> Vec<PathBuf> {
    let ends = |path: &PathBuf| path.extension().is_some_and(|ending| endings.iter().any(|wanted| ending == *wanted));
    let found: Vec<_> = tracked().into_iter().filter(ends).collect();
    assert!(!found.is_empty(), "expected files ending in {endings:?}");
    found
}

#[test]
fn dependencies_point_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("touchmark-sign", &[][..]),
        ("touchmark-sys", &[]),
        ("touchmark-memlock", &["touchmark-sys"]),
        ("touchmark-enforce", &["touchmark-sign", "touchmark-sys"]),
        ("touchmark", &["touchmark-enforce", "touchmark-memlock", "touchmark-sign", "touchmark-sys"]),
        ("touchmark-bypass", &[]),
        ("touchmark-vm", &["touchmark-bypass", "touchmark-sys"]),
        ("touchmark-bench", &["touchmark-vm"]),
    ]);
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert_eq!(packages.len(), allowed.len(), "a new crate must earn its place in this table and in ARCHITECTURE.md");
    for package in packages {
        let name = package["name"].as_str().expect("name");
        let may = allowed.get(name).unwrap_or_else(|| panic!("{name} is not in the table"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let dependency = dependency["name"].as_str().expect("name");
            let ours = dependency.starts_with("touchmark");
            assert!(!ours || may.contains(&dependency), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn unsafe_code_is_in_sys_alone() {
    for manifest in tracked().into_iter().filter(|path| path.ends_with("Cargo.toml")) {
        let text = fs::read_to_string(&manifest).expect("read");
        let package = text.lines().find_map(|line| line.strip_prefix("name = ")).unwrap_or_default();
        if package.contains("touchmark") && !package.contains("touchmark-sys") && !package.contains("fuzz") {
            assert!(text.contains("[lints]\nworkspace = true"), "{} must inherit the lints", manifest.display());
        }
    }
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("read");
    assert!(workspace.contains("unsafe_code = \"forbid\""));
}

#[test]
fn sign_does_no_input_or_output() {
    for path in with_ending(&["rs"]) {
        if path.starts_with(root().join("crates/sign/src")) {
            let text = fs::read_to_string(&path).expect("read");
            for forbidden in ["std::fs", "std::net", "std::process", "std::env", "println!"] {
                assert!(!text.contains(forbidden), "{} uses {forbidden}", path.display());
            }
        }
    }
}

#[test]
fn every_source_file_names_its_licence() {
    for path in with_ending(&["rs", "c", "h", "sh", "toml"]) {
        let text = fs::read_to_string(&path).expect("read");
        let head: Vec<_> = text.lines().take(2).collect();
        assert!(head.iter().any(|line| line.contains("SPDX-License-Identifier: ")), "{}", path.display());
        if path.parent().is_some_and(|folder| folder.ends_with("crates/enforce/bpf")) {
            assert!(head[0].contains("GPL-2.0-only"), "{}", path.display());
        }
    }
}

#[test]
fn files_have_one_job() {
    let mut lengths: Vec<(usize, PathBuf)> = with_ending(&["rs", "c", "h"])
        .into_iter()
        .map(|path| (fs::read_to_string(&path).expect("read").lines().count(), path))
        .collect();
    lengths.sort();
    let (median, _) = &lengths[lengths.len() / 2];
    assert!(*median <= 200, "expected a median of at most 200 lines, found {median}");
    let (longest, path) = lengths.last().expect("files");
    assert!(*longest <= 450, "{} has {longest} lines", path.display());
}

#[test]
fn no_key_and_no_large_file_is_in_the_tree() {
    for path in tracked() {
        let bytes = fs::read(&path).expect("read");
        assert!(bytes.len() < 512 * 1024, "{} has {} bytes", path.display(), bytes.len());
        let text = String::from_utf8_lossy(&bytes);
        let key = text.lines().any(|line| line.starts_with("-----BEGIN ") && line.ends_with("PRIVATE KEY-----"));
        assert!(!key, "{} holds a private key", path.display());
    }
}
