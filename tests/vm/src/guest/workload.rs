// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `cost` measures under each protection, in a process of its own: `workload FOLDER REPEATS`. Times are nanoseconds,
//! which are instructions on a counted machine.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use touchmark_sys::mapping::{Access, Mapping};

use crate::sh;

/// What starting is measured with.
pub(crate) const PROGRAM: &str = "/usr/bin/true";
/// The programs of S0's table.
pub(crate) const S0: [&str; 18] = [
    "cp", "df", "echo", "false", "grep", "kill", "less", "ls", "mkdir", "mount", "mv", "rm", "rmdir", "tar", "touch",
    "true", "umount", "uname",
];
/// What [`Times::build`] starts: a shell and a compiler for each file, as `make` does for a kernel.
pub(crate) const BUILDERS: [&str; 3] = ["/usr/bin/make", "/usr/bin/dash", "/usr/bin/tcc"];

/// Sizes of programs that nothing is known of yet, in bytes.
pub(crate) const SIZES: [u64; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Files of the first size that nothing is known of yet, to be mapped or opened for a median.
const UNSEEN: usize = 5;
/// Files that are compiled, and functions in each.
const SOURCES: usize = 24;
const FUNCTIONS: usize = 150;

/// Times by what was done.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Times {
    /// Start and end of a program that ran before.
    pub(crate) exec: u64,
    /// A library that was mapped before.
    pub(crate) mmap: u64,
    /// The same for reading: nothing is decided about it.
    pub(crate) mmap_read: u64,
    /// A file that was opened before.
    pub(crate) open: u64,
    /// Start and end of programs of [`SIZES`] for the first time.
    pub(crate) first_exec: Vec<u64>,
    /// A library mapped, a file opened for the first time.
    pub(crate) first_mmap: Option<u64>,
    pub(crate) first_open: Option<u64>,
    /// S2's `ls -Al`.
    pub(crate) list: u64,
    /// S2's build, scaled.
    pub(crate) build: u64,
    /// S0's programs: from `execve` until the new program is there, which is what `posix_spawn` waits for.
    pub(crate) programs: BTreeMap<String, u64>,
}

/// Files that nothing is known of yet, for one sample: none if there is nothing first about it.
pub(crate) fn prepare_unseen(folder: &Path) -> Result<Vec<PathBuf>> {
    let sizes = SIZES.iter().map(|size| (format!("exec-{size}"), *size));
    let others =
        ["mmap", "open"].into_iter().flat_map(|what| (0..UNSEEN).map(move |n| (format!("{what}-{n}"), SIZES[0])));
    let made = sizes.chain(others).map(|(name, size)| {
        let path = folder.join(name);
        fs::copy(PROGRAM, &path)?;
        File::options().write(true).open(&path)?.set_len(size)?;
        Ok(path)
    });
    made.collect()
}

/// What [`Times::build`] compiles.
pub(crate) fn prepare_build(folder: &Path) -> Result<()> {
    let project = folder.join("build");
    for source in 0..SOURCES {
        let function =
            |n| format!("int f{source}_{n}(int a, int b) {{ return a * {n} + (b ? f{source}_0(b, a) : {source}); }}\n");
        let text: String = (0..FUNCTIONS).map(function).collect();
        sh::write(project.join(format!("{source}.c")), format!("int f{source}_0(int, int);\n{text}").as_bytes())?;
    }
    let objects: String = (0..SOURCES).map(|source| format!("{source}.o ")).collect();
    // The redirection makes it a shell's business, as most rules of a kernel's are.
    let rules = format!("all: {objects}\n%.o: %.c\n\ttcc -c -o $@ $< > /dev/null\n");
    sh::write(project.join("Makefile"), rules.as_bytes())
}

/// Measures; prints [`Times`] as JSON.
pub(crate) fn run(folder: &str, repeats: &str) -> Result<()> {
    let (folder, repeats) = (Path::new(folder), repeats.parse().context("no number")?);
    let library = File::open(PROGRAM)?;
    let map_for = |file: &File, access| Mapping::new(file, 4096, access).map(drop).context("mmap is refused");
    let map = |file: &File| map_for(file, Access::Execute);
    let open = |path: &Path| File::open(path).map(drop).context("open is refused");
    let mut programs = BTreeMap::new();
    for name in S0 {
        programs.insert(name.to_owned(), start_of(name, repeats)?);
    }
    let times = Times {
        // Ticks of the clock fall into some of these.
        exec: median(repeats * 8, || start(Path::new(PROGRAM), &[]))?,
        mmap: median(repeats, || map(&library))?,
        mmap_read: median(repeats, || map_for(&library, Access::Read))?,
        open: median(repeats, || open(Path::new(PROGRAM)))?,
        first_exec: unseen(folder, "exec", |path| time(|| start(path, &[])))?,
        // A library is open before it is mapped.
        first_mmap: middle(unseen(folder, "mmap", |path| {
            let file = File::open(path)?;
            time(|| map(&file))
        })?),
        first_open: middle(unseen(folder, "open", |path| time(|| open(path)))?),
        list: median(repeats.min(5), || start(Path::new("/usr/bin/ls"), &["-Al", "/usr/bin"]))?,
        build: median(1, || {
            start(Path::new(BUILDERS[0]), &["-B", "-s", "-C", &folder.join("build").to_string_lossy()])
        })?,
        programs,
    };
    println!("{}", serde_json::to_string(&times)?);
    Ok(())
}

/// The unseen files of a kind, smallest first; what is read here is in the page cache, so the disk is not measured.
fn unseen(folder: &Path, what: &str, measure: impl Fn(&Path) -> Result<u64>) -> Result<Vec<u64>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&format!("{what}-")) {
            files.push((entry.metadata()?.len(), entry.path()));
        }
    }
    files.sort();
    files.iter().map(|(_, path)| measure(path)).collect()
}

fn start(program: &Path, arguments: &[&str]) -> Result<()> {
    let status = Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("{} cannot be started", program.display()))?;
    ensure!(status.success(), "{} ended with {status}", program.display());
    Ok(())
}

fn start_of(name: &str, repeats: usize) -> Result<u64> {
    let mut times = Vec::new();
    for _ in 0..=repeats.min(7) {
        let mut command = Command::new(format!("/usr/bin/{name}"));
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let begin = Instant::now();
        let mut child = command.spawn().with_context(|| format!("{name} cannot be started"))?;
        times.push(begin.elapsed());
        child.wait()?;
    }
    // The first was to warm up.
    let times = times.iter().skip(1).map(|time| u64::try_from(time.as_nanos()).context("too long"));
    middle(times.collect::<Result<_>>()?).context("no run")
}

/// The median after one run to warm up.
fn median(repeats: usize, mut run: impl FnMut() -> Result<()>) -> Result<u64> {
    run()?;
    let times = (0..repeats).map(|_| time(&mut run)).collect::<Result<_>>()?;
    middle(times).context("no run")
}

fn middle(mut times: Vec<u64>) -> Option<u64> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

fn time(run: impl FnOnce() -> Result<()>) -> Result<u64> {
    let begin = Instant::now();
    run()?;
    u64::try_from(begin.elapsed().as_nanos()).context("too long")
}
