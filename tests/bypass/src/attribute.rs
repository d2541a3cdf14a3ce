// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The attribute that holds a signature: taken off, put back, taken from another file.
//!
//! Where there is no rule there are no signatures either, and none are moved: the techniques are about the content.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::Command;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::arena::{Arena, run, stranger_bytes};

const ATTRIBUTE: &str = "user.touchmark";

/// The signature that a file has, if it has one.
fn signature(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; 4096];
    match rustix::fs::getxattr(path, ATTRIBUTE, &mut value[..]) {
        Ok(size) => Ok(Some(value[..size].to_vec())),
        Err(Errno::NODATA) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn put(path: &Path, signature: Option<&[u8]>) -> io::Result<()> {
    match signature {
        Some(value) => Ok(rustix::fs::setxattr(path, ATTRIBUTE, value, XattrFlags::empty())?),
        None => Ok(()),
    }
}

/// Gives one file the signature of another.
pub(crate) fn copy_signature(arena: &Arena, from: &str, to: &str) -> io::Result<()> {
    put(&arena.path(to), signature(&arena.path(from))?.as_deref())
}

/// Opens a program for writing that ran a moment ago, and is busy for some milliseconds.
pub(crate) fn writable(path: &Path, options: &fs::OpenOptions) -> io::Result<fs::File> {
    loop {
        match options.open(path) {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {}
            other => return other,
        }
    }
}

/// An approved program that can be changed while the attacker runs, and another that it can take a signature from.
pub(crate) fn with_programs(arena: &Arena) -> io::Result<()> {
    arena.with_both()?;
    let bytes = fs::read(arena.attacker())?;
    arena.approved_file("program", &bytes)?;
    arena.approved_file("second", &[&bytes[..], b"\n\n"].concat())
}

pub(crate) fn put_back(arena: &Arena) -> io::Result<()> {
    let program = arena.path("program");
    run(&mut Command::new(&program))?;
    let own = signature(&program)?;
    if own.is_some() {
        rustix::fs::removexattr(&program, ATTRIBUTE)?;
    }
    writable(&program, fs::File::options().append(true))?.write_all(b"x")?;
    put(&program, own.as_deref())?;
    run(&mut Command::new(program))
}

pub(crate) fn replaced(arena: &Arena) -> io::Result<()> {
    let program = arena.path("program");
    run(&mut Command::new(&program))?;
    run(&mut Command::new(arena.path("second")))?;
    writable(&program, fs::File::options().write(true).truncate(true))?.write_all(&stranger_bytes())?;
    copy_signature(arena, "second", "program")?;
    run(&mut Command::new(program))
}
