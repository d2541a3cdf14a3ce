// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signing and verifying a tree of real ELF files, beside openssl and evmctl with the same key.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use touchmark_vm::Tree;

use crate::run::{Subject, interleaved, peak_memory, run, words};
use crate::samples::Spread;

/// At least so many files are signed and verified.
const FILES: usize = 1000;
/// For loops that start a process for each file.
const LOOPED: usize = 500;
/// S0's largest file, in bytes.
const LARGE: u64 = 134_147_808;

/// Measures everything; prints a table.
pub(crate) fn measure(runs: usize, out: &Path) -> Result<Value> {
    let bench = Bench::new(out)?;
    println!("\n{} ELF files, {:.1} MiB", bench.count, bench.bytes as f64 / (1 << 20) as f64);
    Ok(json!({
        "files": bench.count,
        "bytes": bench.bytes,
        "verify": bench.verify(runs)?,
        "sign": bench.sign(runs)?,
        "sign_looped": bench.sign_looped(runs.min(3))?,
        "large": bench.large()?,
    }))
}

struct Bench {
    scratch: TempDir,
    touchmark: PathBuf,
    count: usize,
    bytes: u64,
}

impl Bench {
    /// Keys, and copies of a Debian tree's ELF files until there are enough.
    fn new(out: &Path) -> Result<Self> {
        let touchmark = std::env::current_exe()?.with_file_name("touchmark");
        ensure!(touchmark.exists(), "expected {}; run `make bench`", touchmark.display());
        let scratch = TempDir::new_in(out).context("cannot make a folder for the files")?;
        let mut bench = Self { scratch, touchmark, count: 0, bytes: 0 };
        let key = bench.path("key.pem");
        run(&words(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=bench", "-keyout"]
                .map(OsStr::new),
        )
        .into_iter()
        .chain([key.into(), "-out".into(), bench.path("cert.pem").into()])
        .collect::<Vec<_>>())?;
        let sources = elf_files(Tree::fetch()?.path())?;
        ensure!(!sources.is_empty(), "the Debian tree has no ELF files");
        fs::create_dir(bench.path("tree"))?;
        while bench.count < FILES {
            for source in &sources {
                let target = bench.path("tree").join(format!("{:05}", bench.count));
                bench.bytes += fs::copy(source, target)?;
                bench.count += 1;
            }
        }
        Ok(bench)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn command(&self, arguments: &[&OsStr]) -> Vec<OsString> {
        std::iter::once(self.touchmark.as_os_str()).chain(arguments.iter().copied()).map(OsString::from).collect()
    }

    fn verify_command(&self, jobs: &str, what: &Path) -> Vec<OsString> {
        let certificate = self.path("cert.pem");
        self.command(&[
            "verify".as_ref(),
            "-r".as_ref(),
            "--jobs".as_ref(),
            jobs.as_ref(),
            "--cert".as_ref(),
            certificate.as_ref(),
            what.as_ref(),
        ])
    }

    /// `container`: `None` for the default ones.
    fn sign_command(&self, container: Option<&str>, jobs: &str, what: &Path) -> Vec<OsString> {
        let (key, certificate) = (self.path("key.pem"), self.path("cert.pem"));
        let mut command = self.command(&[
            "sign".as_ref(),
            "-r".as_ref(),
            "--key".as_ref(),
            key.as_ref(),
            "--cert".as_ref(),
            certificate.as_ref(),
            "--jobs".as_ref(),
            jobs.as_ref(),
        ]);
        command.extend(container.iter().flat_map(|container| ["--container".into(), OsString::from(container)]));
        command.push(what.into());
        command
    }

    /// One thread beside `openssl dgst` over the same signed files, and two threads.
    fn verify(&self, runs: usize) -> Result<Value> {
        let tree = self.path("tree");
        run(&self.sign_command(Some("xattr"), "2", &tree))?;
        let nothing = || Ok(());
        let mut digest: Vec<OsString> = ["openssl", "dgst", "-sha256"].map(Into::into).into();
        for entry in fs::read_dir(&tree)? {
            digest.push(entry?.path().into());
        }
        let subjects = [
            Subject { name: "verify, 1 thread", command: self.verify_command("1", &tree), before: &nothing },
            Subject { name: "verify, 2 threads", command: self.verify_command("2", &tree), before: &nothing },
            Subject { name: "openssl dgst", command: digest, before: &nothing },
        ];
        let seconds = interleaved(&subjects, runs)?;
        let speed = Spread::of_ratios(&seconds[2], &seconds[0]);
        let threads = Spread::of_ratios(&seconds[0], &seconds[1]);
        println!("verify: speed relative to openssl dgst {speed}; two threads relative to one {threads}");
        Ok(json!({ "seconds": table(&subjects, &seconds), "speed_to_openssl": speed, "two_threads_to_one": threads }))
    }

    /// The whole tree beside `evmctl ima_sign -r`.
    fn sign(&self, runs: usize) -> Result<Value> {
        let tree = self.path("tree");
        let unsign = || run(&self.command(&["unsign".as_ref(), "-r".as_ref(), tree.as_ref()]));
        let key = self.path("key.pem");
        let evmctl = words(["evmctl", "ima_sign", "-r", "--hashalgo", "sha256", "--key"].map(OsStr::new));
        let evmctl = evmctl.into_iter().chain([key.into(), tree.clone().into()]).collect();
        let nothing = || Ok(());
        let subjects = [
            Subject { name: "sign, xattr", command: self.sign_command(Some("xattr"), "2", &tree), before: &unsign },
            Subject {
                name: "sign, xattr, 1 thread",
                command: self.sign_command(Some("xattr"), "1", &tree),
                before: &unsign,
            },
            Subject { name: "sign, embedded and xattr", command: self.sign_command(None, "2", &tree), before: &unsign },
            Subject { name: "evmctl ima_sign -r", command: evmctl, before: &nothing },
        ];
        let seconds = interleaved(&subjects, runs)?;
        let ratio = |index: usize| Spread::of_ratios(&seconds[3], &seconds[index]);
        println!(
            "sign: evmctl -r takes {} times as long as xattr, {} one thread, {} default containers",
            ratio(0),
            ratio(1),
            ratio(2)
        );
        Ok(json!({
            "seconds": table(&subjects, &seconds),
            "evmctl_to_xattr": ratio(0),
            "evmctl_to_xattr_one_thread": ratio(1),
            "evmctl_to_default": ratio(2),
        }))
    }

    /// Loops of one process (or two) a file, over some of the files; compared by time per file.
    fn sign_looped(&self, runs: usize) -> Result<Value> {
        let (some, tree) = (self.path("some"), self.path("tree"));
        fs::create_dir(&some)?;
        for index in 0..LOOPED.min(self.count) {
            let name = format!("{index:05}");
            fs::copy(tree.join(&name), some.join(&name))?;
        }
        let unsign = || run(&self.command(&["unsign".as_ref(), "-r".as_ref(), some.as_ref()]));
        let (key, certificate, out) = (self.path("key.pem"), self.path("cert.pem"), self.path("out"));
        let shell = |script: &str| -> Vec<OsString> {
            let words = [
                "sh".as_ref(),
                "-c".as_ref(),
                script.as_ref(),
                "sh".as_ref(),
                some.as_os_str(),
                key.as_ref(),
                certificate.as_ref(),
                out.as_ref(),
            ];
            words.map(OsString::from).into()
        };
        let evmctl = shell("set -e; for f in \"$1\"/*; do evmctl ima_sign --hashalgo sha256 --key \"$2\" \"$f\"; done");
        let objcopy = shell(
            "set -e; for f in \"$1\"/*; do openssl cms -sign -binary -noattr -nocerts -nosmimecap -md sha256 \
             -inkey \"$2\" -signer \"$3\" -in \"$f\" -outform DER -out \"$4.der\"; \
             objcopy --add-section .sig=\"$4.der\" \"$f\" \"$4\" 2>/dev/null || cp \"$f\" \"$4\"; done",
        );
        let nothing = || Ok(());
        let subjects = [
            Subject { name: "sign, xattr", command: self.sign_command(Some("xattr"), "2", &some), before: &unsign },
            Subject { name: "sign, embedded and xattr", command: self.sign_command(None, "2", &some), before: &unsign },
            Subject { name: "evmctl per file", command: evmctl, before: &nothing },
            Subject { name: "openssl cms and objcopy per file", command: objcopy, before: &nothing },
        ];
        let seconds = interleaved(&subjects, runs)?;
        let (evmctl, objcopy) =
            (Spread::of_ratios(&seconds[2], &seconds[0]), Spread::of_ratios(&seconds[3], &seconds[1]));
        println!(
            "sign {LOOPED} files: evmctl per file takes {evmctl} times as long as xattr; openssl cms and objcopy {objcopy} times default containers"
        );
        Ok(json!({ "seconds": table(&subjects, &seconds), "evmctl_to_xattr": evmctl, "objcopy_to_default": objcopy }))
    }

    /// Memory for a file of the size of S0's largest.
    fn large(&self) -> Result<Value> {
        let large = self.path("large");
        fs::copy("/proc/self/exe", &large)?;
        File::options().write(true).open(&large)?.set_len(LARGE)?;
        let sign = peak_memory(&self.sign_command(None, "1", &large), self.scratch.path())?;
        let verify = peak_memory(&self.verify_command("1", &large), self.scratch.path())?;
        println!("a program of {LARGE} bytes: verify holds at most {verify} KiB, sign {sign} KiB");
        Ok(json!({ "bytes": LARGE, "verify_kib": verify, "sign_kib": sign }))
    }
}

fn table(subjects: &[Subject<'_>], seconds: &[Vec<f64>]) -> Value {
    let rows = subjects.iter().zip(seconds);
    rows.map(|(subject, seconds)| (subject.name.to_owned(), json!({ "spread": Spread::of(seconds), "all": seconds })))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The regular ELF files below a folder.
fn elf_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<_> = fs::read_dir(&folder)?.collect::<std::io::Result<_>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && is_elf(&entry.path()) {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && &magic == b"\x7fELF"
}
