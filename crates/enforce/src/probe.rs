// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this kernel offers, what follows from it, and how to get what is missing.

use std::fs;
use std::path::Path;

use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags};

use crate::{btf, object};

/// Whether something is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is there and can be used.
    Available,
    /// It is not.
    Missing,
    /// It could not be found out, usually for want of privilege.
    Unknown,
}

/// One thing a kernel may offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// A short name.
    pub name: &'static str,
    /// Whether it is there.
    pub state: State,
    /// What was looked at and found.
    pub found: String,
    /// What Touchmark does with it, or without it if it is missing.
    pub consequence: &'static str,
    /// How to get it, if it is missing.
    pub remedy: &'static str,
    /// Whether enforcement is impossible without it.
    pub required: bool,
}

/// Looks at everything. Some answers need root.
#[must_use]
pub fn features() -> Vec<Feature> {
    vec![
        bpf_lsm(),
        kernel_btf(),
        bpf_filesystem(),
        ima_hash(),
        bpf_programs(),
        signature_kfuncs(),
        execve_check(),
        fanotify(),
        fs_verity(),
        tpm(),
        lockdown(),
    ]
}

/// Whether the kernel can check `user.touchmark` signatures by itself: 6.8 and newer.
#[must_use]
pub fn verifies_signatures() -> bool {
    btf::known().is_some_and(|known| known.missing_for_signatures.is_empty())
}

fn bpf_lsm() -> Feature {
    let list = fs::read_to_string("/sys/kernel/security/lsm");
    let (state, found) = match &list {
        Ok(list) if list.trim().split(',').any(|lsm| lsm == "bpf") => (State::Available, list.trim().to_owned()),
        Ok(list) => (State::Missing, format!("active security modules: {}", list.trim())),
        Err(error) => (State::Unknown, format!("/sys/kernel/security/lsm: {error}")),
    };
    Feature {
        name: "BPF LSM",
        state,
        found,
        consequence: "decides in the kernel what may run; without it nothing is enforced",
        remedy: "boot with lsm=...,bpf (the list above plus bpf) on a kernel with CONFIG_BPF_LSM; Debian's have both from 6.1 on",
        required: true,
    }
}

fn kernel_btf() -> Feature {
    Feature {
        name: "kernel BTF",
        consequence: "lets one compiled object fit every kernel; without it the programs do not load",
        remedy: "use a kernel with CONFIG_DEBUG_INFO_BTF; Debian's have it",
        required: true,
        ..by_path("/sys/kernel/btf/vmlinux")
    }
}

fn bpf_filesystem() -> Feature {
    let mounted = crate::pins::exist().is_ok();
    Feature {
        name: "BPF file system",
        state: if mounted { State::Available } else { State::Missing },
        found: format!("/sys/fs/bpf is {}", if mounted { "mounted" } else { "not mounted, or not readable" }),
        consequence: "keeps programs and verdicts alive when the daemon dies",
        remedy: "mount -t bpf bpf /sys/fs/bpf",
        required: true,
    }
}

fn ima_hash() -> Feature {
    let list = "/sys/kernel/security/ima/ascii_runtime_measurements";
    let (state, found) = match fs::read_to_string(list) {
        Ok(text) => match text.split_whitespace().nth(3).and_then(|field| field.split_once(':')) {
            Some(("sha256", _)) => (State::Available, "IMA hashes with sha256".to_owned()),
            Some((algorithm, _)) => (State::Missing, format!("expected sha256, IMA hashes with {algorithm}")),
            None => (State::Unknown, format!("{list} is empty")),
        },
        Err(error) if Path::new("/sys/kernel/security/ima").exists() => (State::Unknown, format!("{list}: {error}")),
        Err(_) if Path::new("/sys/kernel/security/lsm").exists() => {
            (State::Missing, "this kernel has no IMA".to_owned())
        }
        Err(error) => (State::Unknown, format!("{list}: {error}")),
    };
    Feature {
        name: "IMA file hash",
        state,
        found,
        consequence: "gives the SHA-256 of a file to the BPF programs; without it nothing can be approved",
        remedy: "use a kernel with CONFIG_IMA and boot with ima_hash=sha256; Debian's have both",
        required: true,
    }
}

/// The proof: the kernel's verifier takes the programs. Nothing is attached.
fn bpf_programs() -> Feature {
    let (state, found) = if rustix::process::geteuid().is_root() {
        match object::try_load() {
            Ok(()) => (State::Available, "this kernel's verifier accepts them".to_owned()),
            Err(error) => (State::Missing, error.to_string()),
        }
    } else {
        (State::Unknown, "only root can try".to_owned())
    };
    Feature {
        name: "Touchmark's BPF programs",
        state,
        found,
        consequence: "are what enforces",
        remedy: "use a kernel from 6.1 on with the features above",
        required: true,
    }
}

fn signature_kfuncs() -> Feature {
    let (state, found) = match btf::known().map(|known| &known.missing_for_signatures) {
        None => (State::Unknown, "the kernel's BTF cannot be read".to_owned()),
        Some(missing) if missing.is_empty() => (State::Available, "all kernel functions present".to_owned()),
        Some(missing) => (State::Missing, format!("missing {}", missing.join(", "))),
    };
    Feature {
        name: "signatures in xattrs",
        state,
        found,
        consequence: "the kernel checks user.touchmark by itself; without it only digests that the daemon or `touchmark \
                      admit` approved may run",
        remedy: "use a kernel from 6.8 on (Debian 13, or Debian 12 with backports)",
        required: false,
    }
}

fn execve_check() -> Feature {
    let checks_scripts = btf::known().is_some_and(|known| known.checks_scripts);
    let state = if checks_scripts { State::Available } else { State::Missing };
    Feature {
        name: "AT_EXECVE_CHECK",
        state,
        found: if state == State::Available { "execveat(2) can check scripts" } else { "not in this kernel" }
            .to_owned(),
        consequence: "lets an interpreter ask whether a script is approved, if the interpreter does ask",
        remedy: "use a kernel from 6.14 on (Debian 13 with backports)",
        required: false,
    }
}

fn fanotify() -> Feature {
    let group = Fanotify::init(InitFlags::FAN_CLASS_CONTENT, EventFFlags::O_RDONLY);
    let (state, found) = match group {
        Ok(_) => (State::Available, "permission events can be had".to_owned()),
        Err(nix::errno::Errno::EPERM) => (State::Unknown, "only root can try".to_owned()),
        Err(errno) => (State::Missing, errno.desc().to_owned()),
    };
    Feature {
        name: "fanotify",
        state,
        found,
        consequence: "admits programs with an embedded signature at exec; without it they need `touchmark admit`",
        remedy: "use a kernel with CONFIG_FANOTIFY_ACCESS_PERMISSIONS; Debian's have it",
        required: false,
    }
}

fn fs_verity() -> Feature {
    Feature {
        name: "fs-verity",
        consequence: "seals files so that they are decided without being read",
        remedy: "use a kernel with CONFIG_FS_VERITY and a file system that supports it (ext4: tune2fs -O verity)",
        ..by_path("/proc/sys/fs/verity")
    }
}

fn tpm() -> Feature {
    Feature {
        name: "TPM",
        consequence: "can prove to others what ran",
        remedy: "switch it on in the firmware; a virtual machine can have a software TPM",
        ..by_path("/sys/class/tpm/tpm0")
    }
}

fn lockdown() -> Feature {
    let (state, found) = match fs::read_to_string("/sys/kernel/security/lockdown") {
        Ok(text) if text.contains("[none]") => (State::Missing, text.trim().to_owned()),
        Ok(text) => (State::Available, text.trim().to_owned()),
        Err(error) => (State::Unknown, format!("/sys/kernel/security/lockdown: {error}")),
    };
    Feature {
        name: "kernel lockdown",
        state,
        found,
        consequence: "keeps root from changing the running kernel; without it root can undo any protection",
        remedy: "boot with lockdown=integrity, or with UEFI Secure Boot",
        required: false,
    }
}

/// A feature that shows by a path that exists; the caller adds the words.
fn by_path(path: &str) -> Feature {
    let exists = Path::new(path).exists();
    Feature {
        name: "",
        state: if exists { State::Available } else { State::Missing },
        found: format!("{path} {}", if exists { "exists" } else { "does not exist" }),
        consequence: "",
        remedy: "",
        required: false,
    }
}
