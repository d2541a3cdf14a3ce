// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The techniques of `tests/bypass` against the kernel's IMA appraisal and against fapolicyd, as
//! `tests/bypass/neighbours.txt` records them. Both get rules as strict as they have: about the arena's file system,
//! and about whatever a process of the attempt's group starts or maps.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::fs::XattrFlags;
use touchmark_bypass::{Arena, FAMILIES, Neighbour, Result as Known, Technique};
use touchmark_vm::protocol::GUEST_ON_DISK;

use crate::sh::{self, Folder};
use crate::site::{soon, text};
use crate::trial::{Need, Trial, trial};
use crate::{report, system};

pub(crate) const TRIALS: &[Trial] = &[
    // The columns are about one kernel, the newest: it has all that the techniques are about.
    // First: what IMA is told stays until the next boot.
    trial("fapolicyd", &[Need::KernelFrom(6, 14), Need::File(FAPOLICYD)], fapolicyd).seconds(900),
    trial("ima", &[Need::KernelFrom(6, 14), Need::File(IMA_POLICY)], ima).seconds(900),
];

/// The attempts' primary group, which both rules name.
const GROUP: &str = "4711";
const UUID: &str = "7f3a1c52-0d4e-4b8f-9a61-70756368746d";
const IMA_POLICY: &str = "/sys/kernel/security/ima/policy";
const FAPOLICYD: &str = "/usr/sbin/fapolicyd";
/// What the attempts start that is not theirs.
const TOOLS: [&str; 5] = ["/usr/bin/true", "/usr/bin/dash", "/usr/bin/kmod", "/usr/sbin/filefrag", GUEST_ON_DISK];
/// An attempt that says nothing by then goes on without us, in seconds.
const PATIENCE: &str = "30";

/// IMA by hashes in `security.ima`: Debian's kernels have no keyring for it that takes a key of one's own.
fn ima() -> Result<()> {
    let field = Field::new()?;
    for (path, sha256) in digests(&field.approved)? {
        let digits = |at| sha256.get(at..at + 2).context("a short digest");
        let digest = (0..64).step_by(2).map(|at| Ok(u8::from_str_radix(digits(at)?, 16)?));
        // A hash (type 4) by SHA-256 (number 4): include/uapi/linux/hash_info.h.
        let label = [4, 4].into_iter().map(Ok).chain(digest).collect::<Result<Vec<u8>>>()?;
        rustix::fs::setxattr(&path, "security.ima", &label, XattrFlags::empty())
            .with_context(|| format!("{} cannot be labelled", path.display()))?;
    }
    let mut rules = String::new();
    for function in ["BPRM_CHECK", "MMAP_CHECK mask=MAY_EXEC", "MODULE_CHECK", "FIRMWARE_CHECK", "KEXEC_KERNEL_CHECK"] {
        rules += &format!("appraise func={function} fsuuid={UUID}\nappraise func={function} gid={GROUP}\n");
    }
    fs::write(IMA_POLICY, rules).context("the policy cannot be loaded")?;
    field.measure(Neighbour::Ima)
}

/// fapolicyd with the rules that it ships, for the attempts' group, and a list of what it trusts, by SHA-256.
fn fapolicyd() -> Result<()> {
    let field = Field::new()?;
    let mut trusted = String::new();
    for (path, sha256) in digests(&field.approved)? {
        trusted += &format!("{} {} {sha256}\n", path.display(), fs::metadata(&path)?.len());
    }
    let mut rules = String::new();
    let mut samples: Vec<_> =
        fs::read_dir("/usr/share/fapolicyd/sample-rules")?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    samples.sort();
    let wanted = ["10-", "20-", "30-", "40-", "41-", "42-", "70-", "72-", "90-", "95-"];
    for sample in samples {
        let name = sample.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // Those of another distribution and the variants that allow more are left out.
        if wanted.iter().any(|number| name.starts_with(number))
            && !name.contains("dracut")
            && !name.contains("updaters")
        {
            rules += &fs::read_to_string(&sample)?
                .replace(" all :", &format!(" gid={GROUP} :"))
                .replace("pattern=", &format!("gid={GROUP} pattern="));
        }
    }
    rules += &format!("deny perm=execute all : dir={}/ trust=0\nallow perm=any all : all\n", field.mount.display());
    sh::write("/etc/fapolicyd/compiled.rules", rules.as_bytes())?;
    sh::write("/etc/fapolicyd/fapolicyd.trust", trusted.as_bytes())?;
    sh::write(
        "/etc/fapolicyd/fapolicyd.conf",
        b"permissive = 0\nnice_val = 0\nq_size = 800\nuid = root\ngid = root\ndo_stat_report = 0\n\
          detailed_report = 0\ndb_max_size = 50\nsubj_cache_size = 1549\nobj_cache_size = 8191\n\
          watch_fs = ext2,ext3,ext4,tmpfs,xfs,vfat,iso9660,btrfs,overlay\ntrust = file\nintegrity = sha256\n\
          syslog_format = rule,dec,perm,auid,pid,exe,:,path,ftype,trust\n",
    )?;
    for folder in ["/var/lib/fapolicyd", "/run/fapolicyd", "/etc/fapolicyd/trust.d", "/etc/fapolicyd/rules.d"] {
        fs::create_dir_all(folder)?;
    }
    let _daemon = Daemon::start()?;
    field.measure(Neighbour::Fapolicyd)
}

struct Daemon(Child);

impl Daemon {
    const LOG: &str = "/run/fapolicyd.log";

    fn start() -> Result<Self> {
        let log = File::create(Self::LOG)?;
        let mut command = Command::new(FAPOLICYD);
        command.arg("--debug-deny").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut daemon = Self(command.spawn()?);
        soon("fapolicyd to listen", || {
            let said = fs::read_to_string(Self::LOG)?;
            ensure!(daemon.0.try_wait()?.is_none(), "fapolicyd ended: {said}");
            Ok(said.contains("listen").then_some(()))
        })
        .with_context(|| fs::read_to_string(Self::LOG).unwrap_or_default())?;
        Ok(daemon)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file system with a folder for each technique, prepared.
struct Field {
    mount: PathBuf,
    /// Each with whether it works where there is no rule.
    tried: Vec<(&'static Technique, Arena, bool)>,
    approved: BTreeSet<PathBuf>,
    _image: Folder,
}

impl Field {
    fn new() -> Result<Self> {
        system::load_module("loop")?;
        let image = Folder::new()?;
        let (file, mount) = (image.path().join("image"), image.path().join("mount"));
        File::create(&file)?.set_len(400 << 20)?;
        fs::create_dir(&mount)?;
        sh::succeed(["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-U", UUID, text(&file)])?;
        sh::succeed(["mount", "-o", "loop", text(&file), text(&mount)])?;
        let mut approved = BTreeSet::new();
        let mut tried = Vec::new();
        for technique in FAMILIES.iter().flat_map(|(_, techniques)| techniques.iter()) {
            let ready = technique.module.is_none_or(|module| system::load_module(module).is_ok());
            let untried = technique.known(Neighbour::Ima) == Some(Known::Untried);
            if !technique.is_general() || !ready || untried {
                continue;
            }
            let without = prepare(&mount, "without", technique)?;
            let works = attempt_in_process(technique, &without)?.is_none();
            fs::remove_dir_all(without.path(""))?;
            let arena = prepare(&mount, "with", technique)?;
            approved.extend(arena.approved());
            tried.push((technique, arena, works));
        }
        for tool in TOOLS {
            approved.insert(fs::canonicalize(tool)?);
            let listed = sh::succeed(["ldd", tool])?;
            for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
                approved.insert(fs::canonicalize(library)?);
            }
        }
        if let Ok(tracer) = fs::canonicalize("/var/tmp/touchmark-bypass-tracer") {
            approved.insert(tracer);
        }
        Ok(Self { mount, tried, approved, _image: image })
    }

    /// Tries all, and compares with what is recorded.
    fn measure(&self, neighbour: Neighbour) -> Result<()> {
        let mut others = Vec::new();
        for (technique, arena, works) in &self.tried {
            let stopped = attempt_in_process(technique, arena)?;
            let found = match (&stopped, works) {
                (_, false) => Known::Kernel,
                (Some(_), true) => Known::Stopped,
                (None, true) => Known::NotStopped,
            };
            let said = stopped.unwrap_or_default();
            report::value(technique.name, (found.word(), &said))?;
            if technique.known(neighbour) != Some(found) {
                others.push(format!("{} {} ({})", technique.name, found.word(), said));
            }
        }
        ensure!(others.is_empty(), "tests/bypass/neighbours.txt says otherwise about:\n{}", others.join("\n"));
        Ok(())
    }
}

impl Drop for Field {
    fn drop(&mut self) {
        let _ = sh::run(["umount", "-l", text(&self.mount)]);
    }
}

fn prepare(mount: &Path, way: &str, technique: &Technique) -> Result<Arena> {
    let folder = mount.join(way).join(technique.name);
    fs::create_dir_all(&folder)?;
    let arena = Arena::new(&folder);
    (technique.prepare)(&arena).with_context(|| format!("{} cannot be prepared", technique.name))?;
    Ok(arena)
}

/// What stopped it, if something did.
fn attempt_in_process(technique: &Technique, arena: &Arena) -> Result<Option<String>> {
    let folder = arena.path("");
    // In the same mount namespace: fapolicyd knows files by their paths in its own.
    let words = ["timeout", PATIENCE, "setpriv", "--regid", GROUP, "--keep-groups", GUEST_ON_DISK, "neighbour"];
    let attempt = sh::run(words.into_iter().chain([technique.name, text(&folder)]))?;
    Ok((!attempt.status.success()).then(|| String::from_utf8_lossy(&attempt.stderr).trim().to_owned()))
}

/// One attempt, in a process of its own: `neighbour NAME FOLDER`.
pub(crate) fn attempt(name: &str, folder: &str) -> ExitCode {
    let tried = (|| -> Result<()> {
        let technique = touchmark_bypass::find(name).context("no such technique")?;
        Ok((technique.attempt)(&Arena::new(Path::new(folder)))?)
    })();
    match tried {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The SHA-256 of each file, in hexadecimal digits.
fn digests(paths: &BTreeSet<PathBuf>) -> Result<Vec<(PathBuf, String)>> {
    let said = sh::succeed([Path::new("sha256sum")].into_iter().chain(paths.iter().map(PathBuf::as_path)))?;
    let digest = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    Ok(paths.iter().cloned().zip(said.lines().map(digest)).collect())
}
