// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles what attacks from within: a static program for each kernel to run, and a library to be smuggled in.

use std::path::PathBuf;
use std::{env, fs, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=programs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut sources: Vec<PathBuf> = fs::read_dir("programs")
        .expect("programs/")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c") && !path.ends_with("library.c"))
        .collect();
    sources.sort();
    compile(
        Command::new("gcc")
            .args(["-O1", "-static", "-s", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(out.join("attacker"))
            .args(sources),
    );
    compile(
        Command::new("gcc")
            .args(["-O1", "-shared", "-fPIC", "-s", "-Wall", "-Werror", "-o"])
            .arg(out.join("library.so"))
            .arg("programs/library.c"),
    );
}

fn compile(command: &mut Command) {
    let status = command.status().expect("gcc should be installed");
    assert!(status.success(), "{command:?} ended with {status}");
}
