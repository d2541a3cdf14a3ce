// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the BPF programs with clang; the library embeds the object.

use std::path::PathBuf;
use std::{env, ffi::OsString, process::Command};

const SOURCE: &str = "bpf/touchmark.bpf.c";

fn main() {
    let object = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("touchmark.bpf.o");
    println!("cargo:rerun-if-changed=bpf");

    let mut arguments: Vec<OsString> = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"].map(Into::into).into();
    // Debian keeps <asm/types.h>, which <linux/bpf.h> wants, in a folder that the bpf target does not search.
    if let Some(triplet) = multiarch() {
        arguments.push("-idirafter".into());
        arguments.push(format!("/usr/include/{triplet}").into());
    }
    libbpf_cargo::SkeletonBuilder::new()
        .source(SOURCE)
        .obj(&object)
        .clang_args(arguments)
        .build()
        .unwrap_or_else(|error| panic!("{SOURCE} does not compile (is clang installed?): {error:#}"));
}

fn multiarch() -> Option<String> {
    let output = Command::new("gcc").arg("-print-multiarch").output().ok()?;
    let triplet = String::from_utf8(output.stdout).ok()?;
    Some(triplet.trim().to_owned()).filter(|triplet| !triplet.is_empty())
}
