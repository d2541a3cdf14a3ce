// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the kernels are what the design takes them for, and the harness what the trials take it for.

use std::fs;

use anyhow::{Context, Result, ensure};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::sh::{self, Folder, Mount};
use crate::system;
use crate::trial::{Need, Trial, trial};

pub(crate) const TRIALS: &[Trial] = &[
    trial("lsm_list_has_bpf", &[], lsm_list_has_bpf),
    trial("ima_hashes_with_sha256", &[], ima_hashes_with_sha256),
    trial("kernel_functions", &[], kernel_functions),
    trial("kernel_describes_its_types", &[], kernel_describes_its_types),
    trial("disk_keeps_user_xattrs", &[], disk_keeps_user_xattrs),
    trial("ext4_has_verity", &[], ext4_has_verity),
    trial("tmpfs_user_xattrs", &[Need::KernelFrom(6, 6)], tmpfs_user_xattrs),
    trial("overlay_mounts", &[Need::Module("overlay")], overlay_mounts),
    trial("programs_under_test_run", &[], programs_under_test_run),
    trial("loopback_is_up", &[], loopback_is_up),
    trial("running_program_refuses_writes", &[], running_program_refuses_writes),
];

fn lsm_list_has_bpf() -> Result<()> {
    let active = system::active_lsms()?;
    ensure!(active.iter().any(|lsm| lsm == "bpf"), "expected bpf among the active modules, found {active:?}");
    Ok(())
}

/// The digests that our signatures cover must be those that the kernel computes.
fn ima_hashes_with_sha256() -> Result<()> {
    // The first entry of the list is always there, and made with the default algorithm.
    let list = fs::read_to_string("/sys/kernel/security/ima/ascii_runtime_measurements")?;
    let first = list.lines().next().context("the measurement list is empty")?;
    ensure!(
        first.contains(" sha256:") && first.trim_end().ends_with("boot_aggregate"),
        "expected a sha256 entry, found {first}"
    );
    Ok(())
}

/// Which functions a BPF program can call decides which path it takes: see the table in the design.
fn kernel_functions() -> Result<()> {
    let table = [
        ("bpf_ima_file_hash", (5, 18)),
        ("bpf_verify_pkcs7_signature", (6, 1)),
        ("bpf_lookup_user_key", (6, 1)),
        ("bpf_get_file_xattr", (6, 8)),
        ("bpf_get_fsverity_digest", (6, 8)),
        ("bpf_real_data_inode", (7, 2)),
    ];
    let version = system::kernel_version();
    for (name, since) in table {
        let (expected, found) = (version >= since, system::has_kernel_function(name));
        ensure!(expected == found, "{name}: expected {expected} on {version:?}, found {found}");
    }
    Ok(())
}

fn kernel_describes_its_types() -> Result<()> {
    let types = fs::read("/sys/kernel/btf/vmlinux").context("the kernel has no BTF")?;
    ensure!(types.starts_with(&[0x9f, 0xeb]), "expected the magic of BTF, found {:x?}", &types[..2.min(types.len())]);
    Ok(())
}

fn disk_keeps_user_xattrs() -> Result<()> {
    let folder = Folder::new()?;
    keeps_user_xattr(&folder.path().join("file"))
}

fn tmpfs_user_xattrs() -> Result<()> {
    let mount = Mount::tmpfs()?;
    keeps_user_xattr(&mount.path().join("file"))
}

fn ext4_has_verity() -> Result<()> {
    let mount = Mount::ext4()?;
    keeps_user_xattr(&mount.path().join("file"))?;
    ensure!(fs::exists("/sys/fs/ext4/features/verity")?, "ext4 does not know fs-verity");
    Ok(())
}

fn overlay_mounts() -> Result<()> {
    let lower = Folder::new()?;
    sh::write(lower.path().join("file"), b"below")?;
    let overlay = Mount::overlay(lower.path())?;
    sh::write(overlay.path().join("file"), b"above")?;
    ensure!(fs::read(lower.path().join("file"))? == b"below", "the lower layer changed");
    Ok(())
}

fn programs_under_test_run() -> Result<()> {
    for program in ["touchmark", "touchmarkd"] {
        sh::succeed([program, "--version"])?;
    }
    Ok(())
}

fn loopback_is_up() -> Result<()> {
    std::net::UdpSocket::bind("127.0.0.1:0")?
        .send_to(b"x", "127.0.0.1:9")
        .context("loopback does not carry packets")?;
    Ok(())
}

/// Dropped in 6.11, restored in 6.13 and in later releases of 6.12. Enforcement checks by itself all the same.
fn running_program_refuses_writes() -> Result<()> {
    let folder = Folder::new()?;
    let program = folder.path().join("sleep");
    sh::succeed(["cp".as_ref(), "/usr/bin/sleep".as_ref(), program.as_os_str()])?;
    let mut running = std::process::Command::new(&program).arg("60").spawn()?;
    let opened = fs::File::options().write(true).open(&program);
    running.kill()?;
    running.wait()?;
    sh::expect_errno(opened, Errno::TXTBSY, "opening a running program for writing")
}

fn keeps_user_xattr(file: &std::path::Path) -> Result<()> {
    sh::write(file, b"content")?;
    rustix::fs::setxattr(file, "user.touchmark", b"mark", XattrFlags::CREATE)?;
    let mut value = [0_u8; 16];
    let length = rustix::fs::getxattr(file, "user.touchmark", &mut value)?;
    ensure!(&value[..length] == b"mark", "expected the value that was set, found {:?}", &value[..length]);
    Ok(())
}
