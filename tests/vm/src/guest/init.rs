// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the kernel's first process to a mounted system.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use touchmark_vm::protocol::{BOOT_MODULES, Event, GUEST_ON_DISK, JOB_FILE, JOB_FILE_ON_DISK, Job};

use crate::trial::Trial;
use crate::{report, runner, script, sh};

/// How long the disk may take to appear after its driver was loaded.
const DISK_DEADLINE: Duration = Duration::from_secs(30);
/// File systems of the second stage: type, place, options.
const MOUNTS: [(&str, &str, Option<&str>); 9] = [
    ("tmpfs", "/tmp", Some("mode=1777")),
    ("devpts", "/dev/pts", None),
    ("tmpfs", "/dev/shm", Some("mode=1777")),
    ("securityfs", "/sys/kernel/security", None),
    ("tracefs", "/sys/kernel/tracing", None),
    ("debugfs", "/sys/kernel/debug", None),
    ("cgroup2", "/sys/fs/cgroup", None),
    ("bpf", "/sys/fs/bpf", Some("mode=700")),
    ("fusectl", "/sys/fs/fuse/connections", None),
];

/// In the initramfs: finds the disk and goes on with the guest program that is on it.
pub(crate) fn first_stage() {
    let error = match to_disk() {
        Ok(()) => return power_off(),
        Err(error) => error,
    };
    fail(&error);
}

/// On the disk: mounts the rest and does the job.
pub(crate) fn second_stage(modules: &[(&str, &[Trial])]) {
    if let Err(error) = prepare().and_then(|job| {
        report::send(&Event::Ready);
        do_job(&job, modules)
    }) {
        fail(&error);
    }
    report::send(&Event::Done);
    power_off();
}

fn to_disk() -> Result<()> {
    for (kind, place) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys")] {
        // The kernel may have mounted devtmpfs already.
        if let Err(error) = mount(Some(kind), place, Some(kind), MsFlags::empty(), None::<&str>) {
            if error != nix::errno::Errno::EBUSY {
                return Err(anyhow!(error).context(format!("{place} cannot be mounted")));
            }
        }
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned();
    report::send(&Event::Boot { release });
    let job = fs::read(JOB_FILE)?;
    if matches!(serde_json::from_slice(&job)?, Job::Probe) {
        return Ok(());
    }
    for module in fs::read_to_string(BOOT_MODULES)?.lines() {
        let file = File::open(module)?;
        finit_module(&file, c"", ModuleInitFlags::empty()).with_context(|| format!("{module} cannot be loaded"))?;
    }
    wait_for(Path::new("/dev/vda"))?;
    mount(Some("/dev/vda"), "/newroot", Some("ext4"), MsFlags::empty(), None::<&str>)
        .context("the disk cannot be mounted")?;
    for place in ["/dev", "/proc", "/sys"] {
        mount(Some(place), &*format!("/newroot{place}"), None::<&str>, MsFlags::MS_MOVE, None::<&str>)
            .with_context(|| format!("{place} cannot be moved to the disk"))?;
    }
    mount(Some("tmpfs"), "/newroot/run", Some("tmpfs"), MsFlags::empty(), Some("mode=755"))?;
    std::env::set_current_dir("/newroot")?;
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>).context("the disk cannot become the root")?;
    nix::unistd::chroot(".")?;
    std::env::set_current_dir("/")?;
    sh::write(JOB_FILE_ON_DISK, &job)?;
    // Replaces this process; comes back only when that fails.
    let error = Command::new(GUEST_ON_DISK)
        .arg("on-disk")
        .env_clear()
        .envs([("PATH", "/usr/sbin:/usr/bin"), ("HOME", "/root"), ("TERM", "linux"), ("LC_ALL", "C.UTF-8")])
        .exec();
    Err(anyhow!(error).context("the guest program on the disk cannot be started"))
}

fn prepare() -> Result<Job> {
    for (kind, place, options) in MOUNTS {
        if place.starts_with("/dev/") {
            fs::create_dir_all(place)?;
        }
        // Not every kernel has all of them (fusectl is a module on 6.1); those that need one check for it.
        if Path::new(place).exists() {
            if let Err(error) = mount(Some(kind), place, Some(kind), MsFlags::empty(), options) {
                eprintln!("touchmark-vm-guest: {place} cannot be mounted: {error}");
            }
        }
    }
    sh::write("/proc/sys/kernel/hostname", b"touchmark")?;
    sh::run(["ip", "link", "set", "lo", "up"])?;
    let job = fs::read(JOB_FILE_ON_DISK).context("the job is missing")?;
    Ok(serde_json::from_slice(&job)?)
}

fn do_job(job: &Job, modules: &[(&str, &[Trial])]) -> Result<()> {
    match job {
        Job::Probe => bail!("a probe needs no disk"),
        Job::Trials(names) => runner::run(modules, names),
        Job::Script(command) => script::run(command),
        Job::Shell => script::shell(),
    }
}

fn wait_for(device: &Path) -> Result<()> {
    let end = Instant::now() + DISK_DEADLINE;
    while !device.exists() {
        if Instant::now() > end {
            bail!("{} did not appear", device.display());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn fail(error: &anyhow::Error) {
    eprintln!("touchmark-vm-guest: {error:#}");
    report::send(&Event::Fatal { message: format!("{error:#}") });
    power_off();
}

/// Ends the machine. The disk is a throw-away layer, but a trial's own file systems may be synced by their tests.
fn power_off() {
    let Err(error) = reboot(RebootMode::RB_POWER_OFF);
    eprintln!("touchmark-vm-guest: the machine cannot be powered off: {error}");
}
