// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One virtual machine: QEMU as a child, its console kept for error messages, its events read with a deadline.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::accel::Accel;
use crate::image::path_of;
use crate::initramfs;
use crate::keeper::{Keeper, Line};
use crate::protocol::{Event, Job};
use crate::{Image, Kernel};

/// The program.
pub(crate) const QEMU: &str = "qemu-system-x86_64";

/// How to set up a machine.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the guest's instructions are run.
    pub accel: Accel,
    /// Memory in MiB.
    pub memory: u32,
    /// Processors; [`Accel::Counted`] always has one.
    pub processors: u32,
    /// More words for the kernel's command line, such as `lsm=...` or `ima_policy=tcb`.
    pub cmdline: Vec<String>,
    /// More options for QEMU, such as a TPM's.
    pub qemu: Vec<String>,
    /// How long it may take until the disk is mounted.
    pub boot_deadline: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            accel: Accel::Tcg,
            memory: 1024,
            processors: 2,
            cmdline: Vec::new(),
            qemu: Vec::new(),
            boot_deadline: Duration::from_secs(120),
        }
    }
}

/// A running machine. Dropping it ends QEMU; so does the end of this process, however it comes.
#[derive(Debug)]
pub struct Machine {
    keeper: Keeper,
    // QEMU opens it by our descriptor; kept until QEMU is gone.
    _initramfs: File,
}

impl Machine {
    /// Starts a machine and waits until its disk is mounted and its job begins.
    ///
    /// # Errors
    /// QEMU does not start, or the guest does not get that far in time; the error shows the console's end.
    pub fn boot(kernel: &Kernel, image: &Image, guest: &Path, job: &Job, options: &Options) -> Result<Self> {
        let mut machine = Self::start(kernel, Some(image), guest, job, options)?;
        loop {
            match machine.event(options.boot_deadline)? {
                Event::Ready => return Ok(machine),
                Event::Boot { .. } => {}
                other => bail!("expected the guest to be ready, found {other:?}\n{}", machine.console()),
            }
        }
    }

    /// The guest's next event.
    ///
    /// # Errors
    /// None came in time, the machine ended, or the guest reported that it failed; the error shows the console's end.
    pub fn event(&mut self, deadline: Duration) -> Result<Event> {
        let end = std::time::Instant::now() + deadline;
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            match self.keeper.lines().recv_timeout(left) {
                Ok(Line(text)) => match serde_json::from_str(text.trim()) {
                    Ok(Event::Fatal { message }) => bail!("the guest failed: {message}\n{}", self.console()),
                    Ok(event) => return Ok(event),
                    // The firmware may write to the port before the kernel does.
                    Err(_) => {}
                },
                Err(RecvTimeoutError::Timeout) => {
                    let console = self.console();
                    self.keeper.kill();
                    bail!("the guest said nothing within {} s\n{console}", deadline.as_secs());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(anyhow!("the machine ended unexpectedly\n{}", self.console()));
                }
            }
        }
    }

    /// Waits until the machine has powered off by itself.
    ///
    /// # Errors
    /// It did not in time.
    pub fn power_off(self, deadline: Duration) -> Result<()> {
        self.keeper.wait(deadline).with_context(|| format!("the machine did not power off\n{}", self.console()))
    }

    /// The end of what was written to the console, by the kernel or by QEMU.
    #[must_use]
    pub fn console(&self) -> String {
        format!("--- console ---\n{}\n---------------", self.keeper.console())
    }

    pub(crate) fn start(
        kernel: &Kernel,
        image: Option<&Image>,
        guest: &Path,
        job: &Job,
        options: &Options,
    ) -> Result<Self> {
        let initramfs = initramfs::build(kernel, guest, job)?;
        let mut command = qemu(kernel, &initramfs, image, options);
        // Events come on the second port by standard output, the console by standard error with QEMU's own messages.
        command.args(["-display", "none", "-serial", "file:/dev/stderr", "-serial", "file:/dev/stdout"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self { keeper: Keeper::start(command)?, _initramfs: initramfs })
    }
}

/// Boots with a shell on this terminal and waits until it ends.
///
/// # Errors
/// QEMU does not start, or fails.
pub fn shell(kernel: &Kernel, image: &Image, guest: &Path, options: &Options) -> Result<()> {
    let initramfs = initramfs::build(kernel, guest, &Job::Shell)?;
    let mut command = qemu(kernel, &initramfs, Some(image), options);
    command.args(["-display", "none", "-serial", "mon:stdio", "-serial", "file:/dev/null"]);
    let status = command.status().with_context(|| format!("{QEMU} could not be started"))?;
    if !status.success() {
        bail!("{QEMU} ended with {status}");
    }
    Ok(())
}

fn qemu(kernel: &Kernel, initramfs: &File, image: Option<&Image>, options: &Options) -> Command {
    // The kernel ends it when the thread that started it ends, even by SIGKILL.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", QEMU, "-nodefaults", "-no-reboot", "-machine", "q35"]);
    command.args(options.accel.arguments(kernel));
    let processors = if options.accel == Accel::Counted { 1 } else { options.processors };
    command.args(["-smp", &processors.to_string(), "-m", &options.memory.to_string()]);
    command.arg("-kernel").arg(kernel.vmlinuz()).arg("-initrd").arg(path_of(initramfs));
    // quiet: each line of a log costs milliseconds on an emulated serial port. panic=-1 with -no-reboot: end at once.
    let cmdline = format!("console=ttyS0 quiet panic=-1 oops=panic {}", options.cmdline.join(" "));
    command.args(["-append", cmdline.trim_end()]);
    if let Some(image) = image {
        let drive = format!("file={},format=raw,if=none,id=disk,snapshot=on", image.path().display());
        command.args(["-drive", &drive, "-device", "virtio-blk-pci,drive=disk"]);
    }
    command.args(["-device", "virtio-rng-pci"]).args(&options.qemu);
    command
}
