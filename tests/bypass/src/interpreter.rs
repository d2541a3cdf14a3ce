// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files and texts handed to an approved interpreter.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::arena::{Arena, marked, outcome, run};
use crate::{Outcome, Technique};

const DIRECT: &[&str] = &["direct-interpreter"];
const RULE: &[(&str, &str)] = &[("--interpreter", "interpreter")];
const FREE: Outcome = Outcome::NotStopped(
    "the kernel sees an approved program reading a file; name the interpreter with --interpreter, and only approved \
     scripts start it",
);

pub(crate) const TECHNIQUES: &[Technique] = &[
    Technique::new("interpreter_file", "sh FILE, with a rule for this interpreter", with_shell, file, DIRECT)
        .options(RULE),
    Technique::new("interpreter_text", "sh -c TEXT, with a rule for this interpreter", with_shell, shell_text, DIRECT)
        .options(RULE),
    Technique::new(
        "interpreter_input",
        "A script on standard input, with a rule for this interpreter",
        with_shell,
        shell_input,
        DIRECT,
    )
    .options(RULE),
    Technique::new(
        "interpreter_by_linker",
        "ld.so sh FILE, with a rule for this interpreter",
        with_shell,
        shell_by_linker,
        DIRECT,
    )
    .options(RULE),
    Technique::new("interpreter_python", "python3 FILE, with a rule for this interpreter", with_python, file, DIRECT)
        .options(RULE),
    Technique::new("interpreter_file_without_rule", "sh FILE", with_shell, file, &[]).outcome(FREE),
    Technique::new("interpreter_text_without_rule", "sh -c TEXT", with_shell, shell_text, &[]).outcome(FREE),
    Technique::new(
        "execve_check",
        "An interpreter asks about a script (AT_EXECVE_CHECK)",
        with_shell,
        execve_check,
        &["unsigned"],
    )
    .since(6, 14),
];

fn mark(arena: &Arena) -> PathBuf {
    arena.path("mark")
}

fn text(arena: &Arena) -> String {
    format!("echo here > {}", mark(arena).display())
}

fn with_shell(arena: &Arena) -> io::Result<()> {
    arena.with_attacker()?;
    arena.approved_file("interpreter", &fs::read("/usr/bin/dash")?)?;
    arena.file("script", text(arena).as_bytes()).map(drop)
}

fn with_python(arena: &Arena) -> io::Result<()> {
    arena.approved_file("interpreter", &fs::read("/usr/bin/python3")?)?;
    arena.file("script", format!("open({:?}, \"w\")\n", mark(arena)).as_bytes()).map(drop)
}

fn interpreter(arena: &Arena) -> Command {
    Command::new(arena.path("interpreter"))
}

fn file(arena: &Arena) -> io::Result<()> {
    run(interpreter(arena).arg(arena.path("script")))?;
    marked(&mark(arena))
}

fn shell_text(arena: &Arena) -> io::Result<()> {
    run(interpreter(arena).args(["-c", &text(arena)]))?;
    marked(&mark(arena))
}

fn shell_input(arena: &Arena) -> io::Result<()> {
    let mut child = interpreter(arena).stdin(Stdio::piped()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(text(arena).as_bytes())?;
    }
    outcome(child.wait()?)?;
    marked(&mark(arena))
}

fn shell_by_linker(arena: &Arena) -> io::Result<()> {
    match run(Command::new("/lib64/ld-linux-x86-64.so.2").arg(arena.path("interpreter")).arg(arena.path("script"))) {
        Err(error) if error.raw_os_error() == Some(127) => Err(rustix::io::Errno::PERM.into()),
        other => other.and_then(|()| marked(&mark(arena))),
    }
}

fn execve_check(arena: &Arena) -> io::Result<()> {
    arena.attack("ask-about-script", [arena.path("script")])
}
