// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark events`: what was decided, and why, from the daemon's log.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;

use anyhow::Context;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::daemon::log::{self, Entry};
use crate::{Exit, state, text};

/// Arguments of `touchmark events`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Go on with what is decided from now on
    #[arg(short, long)]
    follow: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut out = io::stdout().lock();
    if let Some(mut old) = open(&log::previous())? {
        print_new(&mut old, &mut out, args.json)?;
    }
    let mut reader = open(&log::current())?;
    if let Some(reader) = &mut reader {
        print_new(reader, &mut out, args.json)?;
    }
    if args.follow {
        follow(reader, &mut out, args.json)?;
    } else if state::daemon_pid()?.is_none() {
        eprintln!("touchmark: touchmarkd is not running, so nothing newer is logged; `touchmark enforce` starts it");
    }
    Ok(Exit::Success)
}

fn follow(mut reader: Option<BufReader<File>>, out: &mut impl Write, json: bool) -> anyhow::Result<()> {
    let watch = Inotify::init(InitFlags::IN_CLOEXEC).context("cannot watch the log")?;
    let wanted = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
    watch
        .add_watch(log::directory(), wanted)
        .with_context(|| format!("cannot watch {}", log::directory().display()))?;
    loop {
        match &mut reader {
            Some(current) => {
                print_new(current, out, json)?;
                if rotated(current)? {
                    reader = None;
                    continue;
                }
            }
            None => {
                reader = open(&log::current())?;
                if reader.is_some() {
                    continue;
                }
            }
        }
        watch.read_events().context("cannot watch the log")?;
    }
}

/// Whether the name of the log now stands for another file than the one being read.
fn rotated(reader: &BufReader<File>) -> anyhow::Result<bool> {
    let Ok(named) = std::fs::metadata(log::current()) else { return Ok(true) };
    let read = reader.get_ref().metadata().context("cannot look at the log")?;
    Ok((named.dev(), named.ino()) != (read.dev(), read.ino()))
}

fn open(path: &std::path::Path) -> anyhow::Result<Option<BufReader<File>>> {
    match File::open(path) {
        Ok(file) => Ok(Some(BufReader::new(file))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Prints the complete lines from here to the end, and stays before a line that is still being written.
fn print_new(reader: &mut BufReader<File>, out: &mut impl Write, json: bool) -> anyhow::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).context("cannot read the log")?;
        if line.last() != Some(&b'\n') {
            let back = i64::try_from(read).context("a line is too long")?;
            reader.seek(SeekFrom::Current(-back)).context("cannot read the log")?;
            return Ok(out.flush()?);
        }
        if json {
            out.write_all(&line)?;
            continue;
        }
        // A line cut short by a full disk is passed over.
        if let Ok(entry) = serde_json::from_slice::<Entry>(&line) {
            print(out, &entry)?;
        }
    }
}

fn print(out: &mut impl Write, entry: &Entry) -> io::Result<()> {
    let path = text::printable(&entry.path.path);
    let digest = entry.digest.as_ref().map(|digest| format!(" sha256:{digest}")).unwrap_or_default();
    let errno =
        entry.errno.map(|errno| format!(" ({})", nix::errno::Errno::from_raw(errno).desc())).unwrap_or_default();
    writeln!(
        out,
        "{} {} {} {path}: {}{errno}; by {}[{}] parent {} uid {}{digest}",
        entry.time, entry.decision, entry.hook, entry.reason, entry.command, entry.pid, entry.parent, entry.uid
    )
}
