// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark admit`: checks signatures in user space and approves the digests in the kernel.

use std::path::{Path, PathBuf};

use anyhow::Context;
use touchmark_enforce::{Approval, Enforcement};

use crate::authority::Authority;
use crate::state::{Lock, State};
use crate::{Exit, files, revocations, text};

/// Arguments of `touchmark admit`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A file is checked against the certificates in force (those given to `touchmark enforce`). Its embedded signature, \
its user.touchmark xattr or FILE.touchmark beside it will do. The approval holds for that content, wherever it lies, \
until other certificates are put in force or the machine restarts.")]
pub(crate) struct Args {
    /// Files to approve
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Approve all signed files in folders
    #[arg(short, long)]
    recursive: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let enforcement = Enforcement::running()?
        .context("enforcement is not loaded; run `touchmark enforce --cert CERT --mode permissive` first")?;
    let mut word = Word::current(&enforcement)?;

    let (mut approved, mut refused) = (0_u64, 0_u64);
    for found in files::walk_all(&args.paths, args.recursive) {
        let outcome = match found {
            Ok(path) => word.admit(&path)?,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => approved += 1,
            Err(error) => {
                refused += 1;
                eprintln!("touchmark: {}", text::printable(format!("{error:#}")));
            }
        }
    }
    println!("{approved} approved, {refused} not");
    Ok(if refused == 0 { Exit::Success } else { Exit::Findings })
}

/// Whose word counts, under which policy.
struct Word<'a> {
    enforcement: &'a Enforcement,
    generation: u32,
    authority: Authority,
}

impl<'a> Word<'a> {
    fn current(enforcement: &'a Enforcement) -> anyhow::Result<Self> {
        let _lock = Lock::change()?;
        Self::read(enforcement)
    }

    /// Under the lock, so that all of it belongs together.
    fn read(enforcement: &'a Enforcement) -> anyhow::Result<Self> {
        let state = State::in_force(enforcement)?;
        let authority = revocations::in_force(state.certificates()?, Some(enforcement))?;
        Ok(Self { enforcement, generation: enforcement.generation()?, authority })
    }

    /// Approves a file; the inner error says why it is not.
    fn admit(&mut self, path: &Path) -> anyhow::Result<anyhow::Result<()>> {
        loop {
            let approval = match self.check(path) {
                Ok(approval) => approval,
                Err(error) => return Ok(Err(error)),
            };
            // Not before: a revocation does not wait for a file to be read.
            let _lock = Lock::change()?;
            if self.enforcement.generation()? == self.generation {
                self.enforcement.approve(&approval)?;
                return Ok(Ok(()));
            }
            // Something was changed since, so the file is judged anew: its signature may be revoked.
            *self = Self::read(self.enforcement)?;
        }
    }

    fn check(&self, path: &Path) -> anyhow::Result<Approval> {
        let checked = files::check_path(path, &self.authority)?;
        checked.approval(&self.authority).with_context(|| path.display().to_string())
    }
}
