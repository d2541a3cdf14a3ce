// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark admit`: checks signatures in user space and approves the digests in the kernel.

use std::path::PathBuf;

use anyhow::Context;
use touchmark_enforce::Enforcement;

use crate::state::State;
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
    let state = State::in_force(&enforcement)?;
    let authority = revocations::in_force(state.certificates()?, Some(&enforcement))?;

    let (mut approved, mut refused) = (0_u64, 0_u64);
    for found in files::walk_all(&args.paths, args.recursive) {
        let outcome = found.and_then(|path| {
            files::check_path(&path, &authority)?.approval(&authority).with_context(|| path.display().to_string())
        });
        match outcome {
            Ok(approval) => {
                enforcement.approve(&approval)?;
                approved += 1;
            }
            Err(error) => {
                refused += 1;
                eprintln!("touchmark: {}", text::printable(format!("{error:#}")));
            }
        }
    }
    println!("{approved} approved, {refused} not");
    Ok(if refused == 0 { Exit::Success } else { Exit::Findings })
}
