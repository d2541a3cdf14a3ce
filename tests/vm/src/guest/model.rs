// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random changes to a handful of files, against a model that knows which of them may run.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use nix::errno::Errno;
use rustix::fs::XattrFlags;
use touchmark_sys::mapping::{Access, Mapping};

use crate::report;
use crate::revoke::{remove_lists, revoke_by, succeeded};
use crate::sh::{self, Folder};
use crate::site::{Site, generate_key, kernel_verifies, soon, start, text, touchmark, touchmark_ok, writable};
use crate::tiny;
use crate::trial::{Trial, trial};

pub(crate) const TRIALS: &[Trial] = &[
    trial("every_file_runs_or_not_as_the_model_says", &[], || with_seeds(&SEEDS)).seconds(900),
    trial("a_fresh_seed_finds_nothing_either", &[], || with_seeds(&[fastrand::u64(..)])).seconds(600),
];

const SEEDS: [u64; 2] = [3, 20_261_121];
const STEPS: usize = 300;
/// Names of files; some are links to others, some lack their file.
const NAMES: usize = 5;
/// Contents by number: signed by the key that counts, by another, by nobody.
const OURS: usize = 4;
const THEIRS: usize = OURS + 1;
const CONTENTS: usize = THEIRS + 1;
/// How many contents a world sees revoked.
const REVOCATIONS: usize = 2;
const ATTRIBUTE: &str = "user.touchmark";

fn with_seeds(seeds: &[u64]) -> Result<()> {
    let bench = Bench::new()?;
    for seed in seeds {
        report::value("seed", seed)?;
        let mut world = World::new(&bench, Rng::with_seed(*seed))?;
        let mut steps = Vec::new();
        for number in 0..STEPS {
            let step = world.step()?;
            steps.push(format!("{step:?}"));
            world.check().with_context(|| {
                let last = &steps[steps.len().saturating_sub(40)..];
                format!("seed {seed}, step {number}; the last of them:\n{}", last.join("\n"))
            })?;
        }
        touchmark_ok(["enforce", "--mode", "off"])?;
    }
    remove_lists()
}

/// What all worlds share: keys, contents and their signatures.
struct Bench {
    site: Site,
    contents: Vec<Vec<u8>>,
    /// By content; the last has none.
    signatures: Vec<Vec<u8>>,
}

impl Bench {
    fn new() -> Result<Self> {
        let (site, keys) = (Site::new()?, Folder::new()?);
        let other = keys.path().join("other");
        generate_key(&other)?;
        let own = site.key().parent().context("expected a folder")?.to_owned();
        let contents: Vec<_> = (0..CONTENTS as u64).map(tiny::program).collect();
        let mut signatures = Vec::new();
        for (number, content) in contents.iter().enumerate().take(THEIRS) {
            let (path, folder) = (site.path("fresh"), if number < OURS { &own } else { &other });
            sh::write(&path, content)?;
            let (key, certificate) = (folder.join("key.pem"), folder.join("cert.pem"));
            let words = ["sign", "--key", text(&key), "--cert", text(&certificate), "--container", "xattr"];
            touchmark_ok(words.iter().chain(&[text(&path)]))?;
            let mut signature = vec![0; 4096];
            let length = rustix::fs::getxattr(&path, ATTRIBUTE, &mut signature[..])?;
            signature.truncate(length);
            signatures.push(signature);
            fs::remove_file(&path)?;
        }
        Ok(Self { site, contents, signatures })
    }

    /// Whether this is a signature of this content by the key that counts.
    fn holds(&self, content: &[u8], signature: Option<&[u8]>) -> bool {
        (0..OURS).any(|number| self.contents[number] == content && signature == Some(&self.signatures[number][..]))
    }
}

/// A file as the model has it.
#[derive(Clone, Debug, Default)]
struct Inode {
    content: Vec<u8>,
    signature: Option<Vec<u8>>,
    executable: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Create(usize, usize),
    Write(usize, usize),
    Damage(usize, u8),
    MapWritable(usize),
    Truncate(usize, u8),
    Rename(usize, usize),
    Link(usize, usize),
    Unlink(usize),
    Chmod(usize, bool),
    SetSignature(usize, usize),
    RemoveSignature(usize),
    SwapSignatures(usize, usize),
    Admit(usize),
    Revoke(usize),
    NewPolicy,
    Nothing,
}

struct World<'a> {
    bench: &'a Bench,
    random: Rng,
    inodes: Vec<Inode>,
    names: BTreeMap<usize, usize>,
    admitted: Vec<Vec<u8>>,
    revoked: Vec<Vec<u8>>,
}

impl<'a> World<'a> {
    fn new(bench: &'a Bench, random: Rng) -> Result<Self> {
        remove_lists()?;
        let mut world = Self {
            bench,
            random,
            inodes: Vec::new(),
            names: BTreeMap::new(),
            admitted: Vec::new(),
            revoked: Vec::new(),
        };
        for name in 0..NAMES {
            world.create(name, name % CONTENTS)?;
        }
        bench.site.enforce(&["--no-daemon"])?;
        Ok(world)
    }

    fn path(&self, name: usize) -> PathBuf {
        self.bench.site.path(&format!("file-{name}"))
    }

    /// One change, of the files and of the model.
    fn step(&mut self) -> Result<Step> {
        let step = self.choose();
        match step {
            Step::Create(name, content) => self.create(name, content)?,
            Step::Write(name, content) => self.write(name, self.bench.contents[content].clone())?,
            Step::Damage(name, place) => {
                let mut content = self.inode(name).content.clone();
                let place = usize::from(place) % content.len().max(1);
                if let Some(byte) = content.get_mut(place) {
                    *byte ^= 1;
                }
                self.write(name, content)?;
            }
            Step::MapWritable(name) => self.map_writable(name)?,
            Step::Truncate(name, length) => self.truncate(name, usize::from(length))?,
            Step::Rename(from, to) => self.rename(from, to)?,
            Step::Link(from, to) => self.link(from, to)?,
            Step::Unlink(name) => {
                fs::remove_file(self.path(name))?;
                self.names.remove(&name);
            }
            Step::Chmod(name, executable) => {
                let mode = if executable { "755" } else { "644" };
                sh::succeed(["chmod", mode, text(&self.path(name))])?;
                self.inode_mut(name).executable = executable;
            }
            Step::SetSignature(name, number) => self.sign(name, Some(self.bench.signatures[number].clone()))?,
            Step::RemoveSignature(name) => self.sign(name, None)?,
            Step::SwapSignatures(one, other) => {
                let (first, second) = (self.inode(one).signature.clone(), self.inode(other).signature.clone());
                self.sign(one, second)?;
                self.sign(other, first)?;
            }
            Step::Admit(name) => self.admit(name)?,
            Step::Revoke(name) => self.revoke(name)?,
            Step::NewPolicy => self.bench.site.enforce(&["--no-daemon"])?,
            Step::Nothing => {}
        }
        Ok(step)
    }

    /// A step that can be taken now.
    fn choose(&mut self) -> Step {
        let known: Vec<usize> = self.names.keys().copied().collect();
        let random = &mut self.random;
        let free = random.usize(..NAMES);
        let content = random.usize(..CONTENTS);
        let (Some(name), Some(other)) = (random.choice(&known).copied(), random.choice(&known).copied()) else {
            return Step::Create(free, content);
        };
        match random.u8(..40) {
            0..3 => Step::Create(free, content),
            3..8 => Step::Write(name, content),
            8..11 => Step::Damage(name, random.u8(..)),
            11..14 => Step::MapWritable(name),
            14..17 => Step::Truncate(name, random.u8(..)),
            17..20 => Step::Rename(name, free),
            20..23 => Step::Link(name, free),
            23 => Step::Unlink(name),
            24 => Step::Chmod(name, random.bool()),
            // The one that holds, more often than not.
            25..30 => {
                let right = self.bench.contents.iter().position(|known| *known == self.inode(name).content);
                Step::SetSignature(name, right.filter(|number| *number < THEIRS).unwrap_or(content % THEIRS))
            }
            30 => Step::SetSignature(name, content % THEIRS),
            31..33 => Step::RemoveSignature(name),
            33..36 => Step::SwapSignatures(name, other),
            36..38 => Step::Admit(name),
            38 => Step::NewPolicy,
            // Nothing gives back what was revoked: a few are enough.
            _ if self.revoked.len() < REVOCATIONS => Step::Revoke(name),
            _ => Step::Nothing,
        }
    }

    fn inode(&self, name: usize) -> &Inode {
        &self.inodes[self.names[&name]]
    }

    fn inode_mut(&mut self, name: usize) -> &mut Inode {
        &mut self.inodes[self.names[&name]]
    }

    fn create(&mut self, name: usize, content: usize) -> Result<()> {
        let (path, content) = (self.path(name), self.bench.contents[content].clone());
        if fs::exists(&path)? {
            fs::remove_file(&path)?;
        }
        sh::write(&path, &content)?;
        sh::succeed(["chmod", "755", text(&path)])?;
        self.names.insert(name, self.inodes.len());
        self.inodes.push(Inode { content, signature: None, executable: true });
        Ok(())
    }

    fn write(&mut self, name: usize, content: Vec<u8>) -> Result<()> {
        let mut file = writable(&self.path(name), File::options().write(true).truncate(true))?;
        file.write_all(&content)?;
        self.inode_mut(name).content = content;
        Ok(())
    }

    /// As long as it can be written, it does not run, whatever it holds.
    fn map_writable(&mut self, name: usize) -> Result<()> {
        let path = self.path(name);
        let writer = writable(&path, File::options().read(true).write(true))?;
        let mapping = Mapping::new(&writer, 4096, Access::SharedWrite)?;
        drop(writer);
        let mapped = Mapping::new(File::open(&path)?, 4096, Access::Execute);
        drop(mapping);
        ensure!(mapped.is_err(), "a file that can be written was mapped executable");
        Ok(())
    }

    /// By path, which opens nothing.
    fn truncate(&mut self, name: usize, length: usize) -> Result<()> {
        let path = self.path(name);
        let size = i64::try_from(length)?;
        soon("the file not to be busy", || match nix::unistd::truncate(&path, size) {
            Err(Errno::ETXTBSY) => Ok(None),
            other => other.map(Some).context("truncate"),
        })?;
        self.inode_mut(name).content.resize(length, 0);
        Ok(())
    }

    fn rename(&mut self, from: usize, to: usize) -> Result<()> {
        fs::rename(self.path(from), self.path(to))?;
        // Between two links to one file rename(2) does nothing.
        if self.names.get(&to) != self.names.get(&from) {
            self.names.remove(&from).map(|inode| self.names.insert(to, inode));
        }
        Ok(())
    }

    fn link(&mut self, from: usize, to: usize) -> Result<()> {
        if from == to {
            return Ok(());
        }
        if self.names.contains_key(&to) {
            fs::remove_file(self.path(to))?;
        }
        fs::hard_link(self.path(from), self.path(to))?;
        self.names.insert(to, self.names[&from]);
        Ok(())
    }

    fn sign(&mut self, name: usize, signature: Option<Vec<u8>>) -> Result<()> {
        let path = self.path(name);
        match &signature {
            Some(bytes) => rustix::fs::setxattr(&path, ATTRIBUTE, bytes, XattrFlags::empty())?,
            None if self.inode(name).signature.is_some() => rustix::fs::removexattr(&path, ATTRIBUTE)?,
            None => {}
        }
        self.inode_mut(name).signature = signature;
        Ok(())
    }

    fn admit(&mut self, name: usize) -> Result<()> {
        let code = touchmark(["admit", text(&self.path(name))])?.status.code();
        let inode = self.inode(name);
        let holds =
            self.bench.holds(&inode.content, inode.signature.as_deref()) && !self.revoked.contains(&inode.content);
        ensure!(code == Some(i32::from(!holds)), "admit ended with {code:?} for {inode:?}");
        if holds {
            self.admitted.push(inode.content.clone());
        }
        Ok(())
    }

    fn revoke(&mut self, name: usize) -> Result<()> {
        let path = self.path(name);
        let words = ["--file", text(&path), "--reason", "of the model"];
        succeeded(revoke_by(self.bench.site.key().parent().context("expected a folder")?, &words)?)?;
        self.revoked.push(self.inode(name).content.clone());
        Ok(())
    }

    fn allowed(&self, inode: &Inode) -> bool {
        let signed = kernel_verifies() && self.bench.holds(&inode.content, inode.signature.as_deref());
        (signed || self.admitted.contains(&inode.content)) && !self.revoked.contains(&inode.content)
    }

    /// Tries every file, and starts one.
    fn check(&mut self) -> Result<()> {
        let started = self.random.usize(..NAMES);
        for name in 0..NAMES {
            let path = self.path(name);
            let Some(inode) = self.names.get(&name).map(|number| &self.inodes[*number]) else {
                ensure!(!fs::exists(&path)?, "{} should not be there", path.display());
                continue;
            };
            let allowed = self.allowed(inode);
            let mapped = Mapping::new(File::open(&path)?, 4096, Access::Execute).map(drop);
            expect(mapped, allowed.then_some(()).ok_or(Errno::EPERM), || format!("mapping {name}: {inode:?}"))?;
            if name == started {
                let expected = match (inode.executable, allowed) {
                    (false, _) => Err(Errno::EACCES),
                    (true, false) => Err(Errno::EPERM),
                    (true, true) => Ok(()),
                };
                expect(start(&path).map(drop), expected, || format!("starting {name}: {inode:?}"))?;
            }
        }
        Ok(())
    }
}

fn expect(found: std::io::Result<()>, expected: Result<(), Errno>, what: impl Fn() -> String) -> Result<()> {
    match (&found, expected) {
        (Ok(()), Ok(())) => Ok(()),
        (Err(error), Err(errno)) if error.raw_os_error() == Some(errno as i32) => Ok(()),
        _ => bail!("{}: expected {expected:?}, found {found:?}", what()),
    }
}
