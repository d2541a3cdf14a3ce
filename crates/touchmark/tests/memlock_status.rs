// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark memlock status`, of programs that lock a part of their memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use common::{expect_code, objects, skip, stderr, touchmark};

/// Maps 64 MiB, locks 1 MiB in the middle; unlocks it at the first line, ends with the input.
const PROGRAM: &str = "\
import ctypes, mmap, sys
libc = ctypes.CDLL(None, use_errno=True)
room = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
middle = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(room)) + (8 << 20))
size = ctypes.c_size_t(1 << 20)
assert libc.mlock(middle, size) == 0
print('locked', flush=True)
sys.stdin.readline()
assert libc.munlock(middle, size) == 0
print('unlocked', flush=True)
sys.stdin.readline()
";

fn start() -> Option<(Child, ChildStdin, BufReader<ChildStdout>)> {
    let mut child =
        Command::new("python3").args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    let (input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    expect_line(&mut output, "locked");
    Some((child, input, output))
}

fn expect_line(output: &mut impl BufRead, expected: &str) {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line.trim_end(), expected);
}

#[test]
fn a_locked_part_is_told_from_the_rest() {
    let Some((mut child, input, _output)) = start() else { return skip("no python3") };
    let pid = child.id().to_string();
    let shown = touchmark(["memlock", "status", &pid, "--json"]);
    expect_code(&shown, 0);
    let object = &objects(&shown)[0];
    let summary = &object["summary"];
    assert_eq!(summary["locked_resident"], 1 << 20, "{summary}");
    assert_eq!(object["counted_as_locked"], 1 << 20);
    assert_eq!(summary["splits"], 2, "before and behind: {summary}");
    let mappings = object["mappings"].as_array().unwrap();
    let locked: Vec<_> = mappings.iter().filter(|mapping| mapping["lock"] != "none").collect();
    assert_eq!(locked.len(), 1);
    assert_eq!(locked[0]["resident"], 1 << 20);
    // For people: the sentence, the number, and the picture of the split.
    let shown = touchmark(["memlock", "status", &pid]);
    let text = String::from_utf8(shown.stdout).unwrap();
    for part in ["1 MiB in memory are locked and will stay", "┊█████┊", "VmLck             1 MiB"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    drop(input);
    child.wait().unwrap();
}

#[test]
fn watching_shows_a_merge_and_ends_with_the_process() {
    let Some((mut child, mut input, mut output)) = start() else { return skip("no python3") };
    let mut watcher = Command::new(env!("CARGO_BIN_EXE_touchmark"))
        .args(["memlock", "status", &child.id().to_string(), "--watch", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watcher.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("\"splits\":2"));
    writeln!(input).unwrap();
    expect_line(&mut output, "unlocked");
    let merged = lines.find(|line| line.as_ref().unwrap().contains("\"change\":\"merged\"")).unwrap().unwrap();
    assert!(merged.contains("\"parts\":3"), "{merged}");
    drop(input);
    child.wait().unwrap();
    assert!(watcher.wait().unwrap().success());
}

#[test]
fn what_cannot_be_shown_is_said() {
    let nobody = touchmark(["memlock", "status", "no-program-has-this-name"]);
    expect_code(&nobody, 3);
    assert!(stderr(&nobody).contains("called `no-program-has-this-name`, found none"), "{}", stderr(&nobody));
    // The largest process number is below four million.
    let gone = touchmark(["memlock", "status", "999999999"]);
    expect_code(&gone, 3);
    assert!(stderr(&gone).contains("found none with the number"), "{}", stderr(&gone));
}
