// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compiled BPF programs and how they are loaded.

use libbpf_rs::{Object, ObjectBuilder, OpenObject};

use crate::{EnforceError, btf, probe};

/// libelf reads the image in place and wants it aligned.
#[repr(C, align(16))]
struct Aligned<Bytes: ?Sized>(Bytes);

static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/touchmark.bpf.o")));

/// Loads the object: the kernel verifies the programs, nothing is attached yet. What libbpf has to say goes to standard
/// error.
pub(crate) fn load() -> Result<Object, EnforceError> {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, print_warning)));
    verify()
}

/// Finds out whether the kernel takes the programs; the error is all that is said.
pub(crate) fn try_load() -> Result<(), EnforceError> {
    libbpf_rs::set_print(None);
    verify().map(drop)
}

fn verify() -> Result<Object, EnforceError> {
    let mut object = ObjectBuilder::default()
        .name("touchmark")
        .and_then(|builder| builder.open_memory(&IMAGE.0))
        .map_err(EnforceError::kernel("open the compiled BPF programs"))?;
    set_features(&mut object);
    object.load().map_err(EnforceError::kernel("load the BPF programs (`touchmark doctor` tells what is missing)"))
}

/// Fills the constant `kernel_has` of bpf/kernel.h, alone in its section, and leaves out the program that needs more.
fn set_features(object: &mut OpenObject) {
    for mut map in object.maps_mut().filter(|map| map.name().to_string_lossy().contains(".rodata.feature")) {
        let (Some(features), Some(known)) = (map.initial_value_mut(), btf::known()) else { continue };
        let flags = [u8::from(probe::verifies_signatures()), u8::from(known.rcu), 0, 0];
        let numbers = [known.map_hook, known.program_hook].map(u32::to_ne_bytes);
        let value = [flags, numbers[0], numbers[1]].concat();
        if let Some(begin) = features.get_mut(..value.len()) {
            begin.copy_from_slice(&value);
        }
    }
    for mut program in object.progs_mut() {
        if program.name() == "check_script" {
            program.set_autoload(btf::known().is_some_and(|known| known.checks_scripts));
        }
    }
}

/// libbpf's warnings, but for the verifier's log of thousands of lines: its last ones hold the complaint.
fn print_warning(_: libbpf_rs::PrintLevel, message: String) {
    const LAST: usize = 8;
    let lines: Vec<_> = message.lines().collect();
    for line in &lines[lines.len().saturating_sub(LAST)..] {
        eprintln!("{line}");
    }
}
