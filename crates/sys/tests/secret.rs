// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What others find of a secret: in a core dump, in the memory of a running process, after it asked to be left alone.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use touchmark_sys::secret::{Policy, Secret, protect_process};

/// Set in a victim: the policy, and what to do next.
const VICTIM: &str = "TOUCHMARK_TEST_VICTIM";

const SECRET: u8 = 1;
/// In ordinary memory: shows that the search finds what is there.
const CONTROL: u8 = 2;

/// Built at run time, so that no text of the program contains it. Different for what is secret and what is not.
fn canary(number: u8) -> Vec<u8> {
    (0..48_u8).map(|index| index.wrapping_mul(37).wrapping_add(number.wrapping_mul(91)) ^ 0x5a).collect()
}

/// What a victim does; in the test run itself nothing.
#[test]
fn victim() {
    let Ok(role) = std::env::var(VICTIM) else { return };
    let (policy, then) = role.split_once(' ').expect("a policy and a word");
    policy.parse::<Policy>().expect("policy").enter_into_force();
    let mut bytes = canary(SECRET);
    let secret = Secret::copy_of(&bytes).expect("memory");
    bytes.fill(0);
    let control = canary(CONTROL);
    if then == "protected" {
        // As another user: root may read everything.
        // SAFETY: the call takes numbers.
        assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
        // A change of user protects already; undo that, so that the call under test has something to do.
        // SAFETY: the call takes numbers.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
        println!("open");
        wait_for_line();
        assert!(protect_process().undumpable);
    }
    if then == "child" {
        // What is inherited, as a child of its own finds it.
        assert!(Command::new("cat").arg("/proc/self/environ").status().expect("cat runs").success());
    }
    println!("ready");
    wait_for_line();
    if then == "dump" {
        std::process::abort();
    }
    std::hint::black_box((secret, control));
}

fn wait_for_line() {
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
}

/// Starts a victim in `folder`.
fn start(role: &str, folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "victim", "--nocapture", "--test-threads=1"])
        .env(VICTIM, role)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    let raise = move || {
        // SAFETY: the argument is a `struct rlimit` to read.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const unlimited) };
        Ok(())
    };
    // SAFETY: setrlimit may be called between fork and exec.
    unsafe { command.pre_exec(raise) };
    command.spawn().expect("start")
}

fn wait_for(victim: &mut BufReader<ChildStdout>, word: &str) {
    let mut line = String::new();
    while !line.trim_end().ends_with(word) {
        line.clear();
        assert_ne!(victim.read_line(&mut line).expect("read"), 0, "the victim ended before `{word}`");
    }
}

fn count(haystack: &[u8], needle: &[u8]) -> usize {
    haystack.windows(needle.len()).filter(|window| *window == needle).count()
}

/// How often the canaries, secret and control, occur in what can be read of a process's memory.
fn in_memory_of(pid: u32) -> Option<(usize, usize)> {
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let (mut secrets, mut controls) = (0, 0);
    for line in maps.lines() {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        // Page by page: one that cannot be read hides no other. Reserved heaps are not walked to their end.
        for page in (start..end.min(start + (4 << 20))).step_by(4096) {
            let mut bytes = [0; 4096];
            if memory.read_exact_at(&mut bytes, page).is_ok() {
                secrets += count(&bytes, &canary(SECRET));
                controls += count(&bytes, &canary(CONTROL));
            }
        }
    }
    Some((secrets, controls))
}

/// The policies that this machine can follow.
fn policies() -> impl Iterator<Item = Policy> {
    let hidden = Policy::Auto.kind() == Policy::Hidden.kind();
    Policy::ALL.into_iter().filter(move |policy| hidden || *policy != Policy::Hidden)
}

#[test]
fn a_core_dump_does_not_hold_it() {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").expect("pattern");
    if pattern.starts_with(['|', '/', '@']) {
        eprintln!("core dumps go elsewhere on this machine: {}", pattern.trim());
        return;
    }
    for policy in policies() {
        let folder = tempfile::tempdir().expect("folder");
        let mut victim = start(&format!("{policy} dump"), folder.path());
        wait_for(&mut BufReader::new(victim.stdout.take().expect("stdout")), "ready");
        drop(victim.stdin.take());
        let status = victim.wait().expect("wait");
        assert!(status.core_dumped(), "{policy}: {status}");
        let core = fs::read_dir(folder.path()).expect("folder").next().expect("a core dump").expect("entry");
        let core = fs::read(core.path()).expect("core");
        assert!(count(&core, &canary(CONTROL)) > 0, "{policy}: the search finds what is there");
        assert_eq!(count(&core, &canary(SECRET)), 0, "{policy}");
    }
}

#[test]
fn a_child_finds_nothing_of_it_in_its_environment() {
    for policy in policies() {
        let folder = tempfile::tempdir().expect("folder");
        let role = format!("{policy} child");
        // Its input ends at once, so it does not wait.
        let output = start(&role, folder.path()).wait_with_output().expect("wait");
        assert!(output.status.success(), "{policy}: {output:?}");
        assert!(count(&output.stdout, role.as_bytes()) > 0, "{policy}: the search finds what is there");
        assert_eq!(count(&output.stdout, &canary(SECRET)), 0, "{policy}");
    }
}

#[test]
fn hidden_memory_cannot_be_read_by_another_process() {
    if Policy::Auto.kind() != Policy::Hidden.kind() {
        eprintln!("no hidden memory on this machine");
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let mut victim = start("hidden wait", folder.path());
    wait_for(&mut BufReader::new(victim.stdout.take().expect("stdout")), "ready");
    let found = in_memory_of(victim.id());
    drop(victim.stdin.take());
    victim.wait().expect("wait");
    let Some((secrets, controls)) = found else {
        eprintln!("this process may not read another's memory");
        return;
    };
    assert!(controls > 0, "the search finds what is there");
    assert_eq!(secrets, 0);
}

#[test]
fn a_protected_process_cannot_be_read_by_its_user() {
    // SAFETY: the call takes nothing.
    if unsafe { libc::getuid() } != 0 {
        eprintln!("needs root, to be two processes of another user");
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let mut victim = start("locked protected", folder.path());
    let mut output = BufReader::new(victim.stdout.take().expect("stdout"));
    let mut input = victim.stdin.take().expect("stdin");
    let memory = format!("/proc/{}/mem", victim.id());
    let readable = || {
        let mut reader = Command::new("head");
        let reader = reader.args(["-c0", &memory]).stderr(Stdio::null()).uid(65534).gid(0);
        reader.status().expect("head runs").success()
    };
    wait_for(&mut output, "open");
    assert!(readable(), "the check itself works");
    writeln!(input).expect("write");
    wait_for(&mut output, "ready");
    assert!(!readable());
    drop(input);
    victim.wait().expect("wait");
}
