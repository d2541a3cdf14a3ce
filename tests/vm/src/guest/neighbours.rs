// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The techniques of `tests/bypass` against the kernel's IMA appraisal and against fapolicyd, as
//! `tests/bypass/neighbours.txt` records them. Both get rules as strict as they have: about the arena's file system,
//! and about whatever a process of the attempt's group starts or maps.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use touchmark_bypass::{Arena, FAMILIES, Neighbour, Result as Known, Technique};
use touchmark_vm::protocol::GUEST_ON_DISK;

use crate::sh::{self, Folder};
use crate::site::text;
use crate::trial::{Need, Trial, trial};
use crate::{fapolicyd, ima, report, system};

pub(crate) const TRIALS: &[Trial] = &[
    // The columns are about one kernel, the newest: it has all that the techniques are about.
    // First: what IMA is told stays until the next boot.
    trial("fapolicyd", &[Need::KernelFrom(6, 14), Need::File(fapolicyd::PROGRAM)], fapolicyd).seconds(900),
    trial("ima", &[Need::KernelFrom(6, 14), Need::File(ima::POLICY)], ima).seconds(900),
];

/// The attempts' primary group, which both rules name.
const GROUP: &str = "4711";
const UUID: &str = "7f3a1c52-0d4e-4b8f-9a61-70756368746d";
/// What the attempts start that is not theirs.
const TOOLS: [&str; 5] = ["/usr/bin/true", "/usr/bin/dash", "/usr/bin/kmod", "/usr/sbin/filefrag", GUEST_ON_DISK];
/// An attempt that says nothing by then goes on without us, in seconds.
const PATIENCE: &str = "30";

fn ima() -> Result<()> {
    let field = Field::new()?;
    ima::label(&sh::sha256(&field.approved)?)?;
    let hooks = ["BPRM_CHECK", "MMAP_CHECK mask=MAY_EXEC", "MODULE_CHECK", "FIRMWARE_CHECK", "KEXEC_KERNEL_CHECK"];
    ima::appraise(&hooks, &[format!("fsuuid={UUID}"), format!("gid={GROUP}")])?;
    field.measure(Neighbour::Ima)
}

fn fapolicyd() -> Result<()> {
    let field = Field::new()?;
    let about_field = format!("deny perm=execute all : dir={}/ trust=0\n", field.mount.display());
    fapolicyd::configure(GROUP, &about_field, &sh::sha256(&field.approved)?)?;
    let _daemon = fapolicyd::Daemon::start()?;
    field.measure(Neighbour::Fapolicyd)
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
            approved.append(&mut sh::with_libraries(tool)?);
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
