// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What reaches a swap file under pressure: not keys and passphrases, not programs that run locked.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use memchr::memmem;

use crate::sh::{self, Folder};
use crate::trial::{Need, Trial, trial};

pub(crate) const TRIALS: &[Trial] = &[
    trial("does_not_hold_keys_and_passphrases", &[SWAPON, RECLAIM], does_not_hold_keys_and_passphrases).seconds(240),
    trial("does_not_hold_a_locked_program", &[SWAPON, RECLAIM], does_not_hold_a_locked_program).seconds(240),
];

const SWAPON: Need = Need::File("/usr/sbin/swapon");
/// `memory.reclaim` of control groups.
const RECLAIM: Need = Need::KernelFrom(5, 19);
/// How long something that must happen soon may take.
const SOON: Duration = Duration::from_secs(60);
/// The control group of what is put under pressure.
const GROUP: &str = "/sys/fs/cgroup/touchmark-vm-swap";

/// A swap file in use; swapped in again when dropped.
struct Swap {
    folder: Folder,
}

impl Swap {
    fn new() -> Result<Self> {
        let swap = Self { folder: Folder::new()? };
        let path = swap.path();
        // Swap wants a file without holes.
        let mut file = File::create(&path)?;
        for _ in 0..64 {
            file.write_all(&[0; 1 << 20])?;
        }
        file.sync_all()?;
        let name = path.to_string_lossy().into_owned();
        sh::succeed(["chmod", "600", &name])?;
        sh::succeed(["mkswap", &name])?;
        sh::succeed(["swapon", &name])?;
        let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
        fs::create_dir_all(GROUP)?;
        Ok(swap)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("swap")
    }

    /// Takes all memory from the group that can be taken.
    fn squeeze() {
        // Less than that is there, so the kernel takes what it can and then reports an error.
        for _ in 0..3 {
            let _ = fs::write(Path::new(GROUP).join("memory.reclaim"), "512M");
        }
    }

    /// How often each text is in the file.
    fn counts(&self, texts: &[&[u8]]) -> Result<Vec<usize>> {
        // Swap goes past the page cache; what is cached of the file is old.
        rustix::fs::sync();
        fs::write("/proc/sys/vm/drop_caches", "3")?;
        let content = fs::read(self.path()).context("the swap file cannot be read")?;
        Ok(texts.iter().map(|text| memmem::find_iter(&content, text).count()).collect())
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = sh::run(["swapoff".as_ref(), self.path().as_os_str()]);
        let _ = fs::remove_dir(GROUP);
    }
}

/// A process in the group, ended when dropped.
struct Victim(Child);

impl Victim {
    fn start(words: &[&str]) -> Result<Self> {
        let script = format!("echo 0 > {GROUP}/cgroup.procs; exec \"$@\"");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script, "sh"]).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Self(command.spawn()?))
    }

    /// A shell that holds the words, joined, in its memory. They are joined there, so no file has them joined.
    fn holding(wrapper: &[&str], one: &str, other: &str) -> Result<Self> {
        let script = format!("a={one}; b={other}; c=\"$a-$b\"; c=\"$c$c$c$c$c$c$c$c\"; echo ready; read x");
        let mut words = wrapper.to_vec();
        words.extend(["/bin/sh", "-c", &script]);
        let mut victim = Self::start(&words)?;
        let mut ready = [0; 6];
        let output = victim.0.stdout.as_mut().context("no output")?;
        std::io::Read::read_exact(output, &mut ready)?;
        Ok(victim)
    }

    /// A line of its status in KiB.
    fn kib(&self, key: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(key)).context("no such line")?;
        Ok(line.trim_start_matches(':').split_whitespace().next().context("no number")?.parse()?)
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command waits for the second half of a passphrase: the key's PEM and the first half are in its memory. It may not
/// lock all of itself, so only what it keeps as secrets is out of reach.
fn does_not_hold_keys_and_passphrases() -> Result<()> {
    let swap = Swap::new()?;
    let control = Victim::holding(&[], "control", "canary")?;
    let keys = Folder::new()?;
    let (given, own) = (keys.path().join("given"), keys.path().join("own"));
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let (first, rest) = ("canary-of-a-passphrase", "-and-its-end");
    sh::write(&given, format!("{first}{rest}\n").as_bytes())?;
    sh::succeed([
        "touchmark",
        "key",
        "generate",
        "--algorithm",
        "ecdsa-p256",
        "--passphrase-file",
        &text(&given),
        "--out",
        &text(&own),
    ])?;
    fs::remove_file(&given)?;
    let pem = fs::read_to_string(own.join("key.pem"))?;
    let line = pem.lines().nth(2).context("a key has lines")?.to_owned();
    for memory in ["locked", "auto"] {
        let pipe = keys.path().join(memory);
        sh::succeed(["mkfifo".as_ref(), pipe.as_os_str()])?;
        let victim = Victim::start(&[
            "setpriv",
            "--bounding-set",
            "-ipc_lock",
            "--inh-caps",
            "-ipc_lock",
            "touchmark",
            "sign",
            "--secret-memory",
            memory,
            "--key",
            &text(&own.join("key.pem")),
            "--cert",
            &text(&own.join("cert.pem")),
            "--passphrase-file",
            &text(&pipe),
            "/nonexistent",
        ])?;
        let mut writer = File::options().write(true).open(&pipe)?;
        writer.write_all(first.as_bytes())?;
        let begin = Instant::now();
        while unread(&writer)? {
            ensure!(begin.elapsed() < SOON, "the command does not read its passphrase");
            std::thread::sleep(Duration::from_millis(5));
        }
        Swap::squeeze();
        let swapped = victim.kib("VmSwap")?;
        ensure!(swapped > 0, "{memory}: expected the command's other memory to be swapped out, found none");
        let counts = swap.counts(&[b"control-canary", line.as_bytes(), first.as_bytes()])?;
        ensure!(counts[0] > 0, "{memory}: expected the control in the swap file, found none: the pressure did nothing");
        ensure!(counts[1..] == [0, 0], "{memory}: the swap file holds key and passphrase {counts:?} times");
    }
    drop(control);
    Ok(())
}

fn unread(pipe: &File) -> Result<bool> {
    Ok(rustix::io::ioctl_fionread(pipe)? > 0)
}

fn does_not_hold_a_locked_program() -> Result<()> {
    let swap = Swap::new()?;
    let control = Victim::holding(&[], "control", "canary")?;
    let mut locked = Vec::new();
    for (policy, name) in [("onfault", "touched"), ("future", "mapped")] {
        let wrapper = ["touchmark", "memlock", "run", "--policy", policy, "--"];
        locked.push((policy, Victim::holding(&wrapper, name, "canary")?));
    }
    Swap::squeeze();
    ensure!(control.kib("VmSwap")? > 0, "expected the control to be swapped out");
    for (policy, victim) in &locked {
        ensure!(victim.kib("VmLck")? > 0, "{policy}: not locked");
        ensure!(victim.kib("VmSwap")? == 0, "{policy}: {} KiB were swapped out", victim.kib("VmSwap")?);
    }
    let counts = swap.counts(&[b"control-canary", b"touched-canary", b"mapped-canary"])?;
    ensure!(counts[0] > 0, "expected the control in the swap file, found none");
    ensure!(counts[1..] == [0, 0], "the swap file holds locked memory: {counts:?}");
    Ok(())
}
