// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Others' tests of locked memory end under `memlock run` as they do without: those of the Open POSIX Test Suite for
//! `mlock`, `munlock`, `mlockall`, `munlockall`, and those of libsodium that use its memory for secrets.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use touchmark_vm::{Programs, command, source};

/// Folders of the Open POSIX Test Suite, and one more test, of mappings beyond the limit.
const POSIX: [&str; 7] =
    ["mlock", "mlock/speculative", "mlockall", "mlockall/speculative", "munlock", "munlockall", "mmap/18-1.c"];
/// What a test of libsodium calls that uses memory for secrets.
const SECURE_MEMORY: [&str; 4] = ["sodium_malloc(", "sodium_allocarray(", "sodium_mlock(", "sodium_mprotect_"];
const POLICIES: [&str; 3] = ["current", "future", "onfault"];

/// A test program, ready to run.
struct Program {
    name: String,
    path: PathBuf,
}

#[test]
fn open_posix_tests_end_the_same() -> Result<()> {
    let suite = source("posixtestsuite")?;
    let mut files = Vec::new();
    for part in POSIX {
        files.extend(c_files(&suite.join("conformance/interfaces").join(part))?);
    }
    let built = TempDir::new()?;
    let mut programs = Vec::new();
    for file in files {
        let name = file.strip_prefix(&suite)?.to_string_lossy().replace('/', "_");
        let flags = ["-D_XOPEN_SOURCE=600", "-D_GNU_SOURCE", "-lpthread", "-lrt"].map(str::to_owned);
        programs.push(compile(name, &file, built.path(), &[suite.join("include")], &flags)?);
    }
    // One of them opens its own source.
    let passed = compare(&programs, |folder| Ok(symlink(suite.join("conformance"), folder.join("conformance"))?))?;
    ensure!(passed >= 10, "expected most of the {} tests to pass, found {passed}", programs.len());
    Ok(())
}

/// Some of them run into a guard page on purpose, and end well if that is noticed.
#[test]
fn libsodiums_tests_of_secure_memory_end_the_same() -> Result<()> {
    let suite = source("libsodium")?;
    let tests = suite.join("test/default");
    let built = TempDir::new()?;
    let mut programs = Vec::new();
    for file in c_files(&tests)? {
        let text = fs::read_to_string(&file)?;
        if !SECURE_MEMORY.iter().any(|call| text.contains(call)) {
            continue;
        }
        let name = file.file_stem().context("a file has a name")?.to_string_lossy().into_owned();
        let expectations = format!("-DTEST_SRCDIR=\"{}\"", tests.display());
        let flags = [expectations, "-DHAVE_CATCHABLE_SEGV".to_owned(), "-lsodium".to_owned()];
        programs.push(compile(name, &file, built.path(), &[suite.join("test/quirks")], &flags)?);
    }
    for name in ["sodium_utils", "sodium_utils2", "sodium_utils3"] {
        ensure!(programs.iter().any(|program| program.name == name), "expected the test {name}");
    }
    let passed = compare(&programs, |_| Ok(()))?;
    ensure!(passed >= 30, "expected most of the {} tests to pass, found {passed}", programs.len());
    Ok(())
}

fn c_files(place: &Path) -> Result<Vec<PathBuf>> {
    if place.is_file() {
        return Ok(vec![place.to_owned()]);
    }
    let entries = fs::read_dir(place).with_context(|| format!("expected the folder {}", place.display()))?;
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "c"));
    files.sort();
    Ok(files)
}

fn compile(name: String, file: &Path, into: &Path, headers: &[PathBuf], flags: &[String]) -> Result<Program> {
    let path = into.join(&name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-w", "-O1", "-o"]).arg(&path).arg(file);
    for folder in headers {
        gcc.arg("-I").arg(folder);
    }
    command::run(gcc.args(flags)).with_context(|| format!("the test {name} could not be built"))?;
    Ok(Program { name, path })
}

/// Runs each program alone and under each policy; returns how many pass alone.
fn compare(programs: &[Program], prepare: impl Fn(&Path) -> Result<()>) -> Result<usize> {
    let ours = Programs::build()?;
    let run = |program: &Program, policy: Option<&str>| -> Result<Output> {
        let folder = TempDir::new()?;
        prepare(folder.path())?;
        let mut command = match policy {
            None => Command::new(&program.path),
            Some(policy) => {
                let mut command = Command::new(ours.touchmark());
                command.args(["memlock", "run", "--policy", policy, "--"]).arg(&program.path);
                command
            }
        };
        command::output(command.current_dir(folder.path()).stdin(Stdio::null()))
    };
    let mut passed = 0;
    for program in programs {
        let plain = run(program, None)?;
        passed += usize::from(plain.status.success());
        for policy in POLICIES {
            let locked = run(program, Some(policy))?;
            ensure!(plain == locked, "{}: alone {plain:?}, under {policy} {locked:?}", program.name);
        }
    }
    println!("{passed} of {} pass, and all end the same under each policy", programs.len());
    Ok(passed)
}
