// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark order`: the owner's word for one change of a locked policy.
//!
//! A locked policy stays as it is until the machine restarts, even against root, unless a trusted key signs the
//! challenge: a text that names this boot, the policy in force and the random number of its state. With the change
//! there is another policy, so an order serves once; the random number holds where enforcement ended and policies are
//! counted anew.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use touchmark_enforce::Enforcement;
use touchmark_sign::cms;
use touchmark_sign::digest::{Digest, Hasher};
use touchmark_sign::statement::{Kind, Statement};

use crate::Exit;
use crate::exit::UsageError;
use crate::keys::KeyArgs;
use crate::revocations;
use crate::state::State;

/// The longest challenge, in bytes; ours have about a hundred.
const CHALLENGE_MAX: u64 = 4096;

/// Arguments of `touchmark order`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
On the locked machine:   touchmark order challenge > challenge
Where the key is:        touchmark order sign --key KEY --cert CERT challenge > order
On the locked machine:   touchmark enforce --order order ...")]
pub(crate) struct Args {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, clap::Subcommand)]
enum Step {
    /// Print what is to be signed
    Challenge,
    /// Sign it; the order goes to standard output
    Sign {
        #[command(flatten)]
        key: KeyArgs,
        /// The challenge; `-` is standard input
        #[arg(value_name = "FILE")]
        challenge: PathBuf,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    match &args.step {
        Step::Challenge => {
            let enforcement = Enforcement::running()?.context("enforcement is off: nothing is locked")?;
            anyhow::ensure!(enforcement.locked()?, "the policy is not locked: `touchmark enforce` needs no order");
            out.write_all(challenge(&enforcement, &state(&enforcement)?)?.as_bytes())?;
        }
        Step::Sign { key, challenge } => {
            let text = read_challenge(challenge)?;
            let (signer, certificate) = key.open()?;
            out.write_all(&cms::sign(&statement(text.as_bytes()), signer.as_ref(), &certificate)?)?;
        }
    }
    Ok(Exit::Success)
}

/// Fails if the policy is locked and there is no order to change it.
pub(super) fn require(enforcement: &Enforcement, order: Option<&Path>) -> anyhow::Result<()> {
    if !enforcement.locked()? {
        return Ok(());
    }
    let order = order.ok_or_else(|| {
        UsageError("the policy is locked: expected --order FILE, found none (see `touchmark order --help`)".to_owned())
    })?;
    let state = state(enforcement)?;
    // A revoked certificate orders nothing.
    let authority = revocations::in_force(state.certificates()?, Some(enforcement))?;
    let der = fs::read(order).with_context(|| format!("cannot read {}", order.display()))?;
    authority
        .verify(&der, &statement(challenge(enforcement, &state)?.as_bytes()))
        .with_context(|| format!("{} is no order for this policy on this boot", order.display()))?;
    Ok(())
}

fn state(enforcement: &Enforcement) -> anyhow::Result<State> {
    State::load(enforcement)?.context("expected the certificates in force, found none")
}

fn challenge(enforcement: &Enforcement, state: &State) -> anyhow::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").context("cannot read the boot's identity")?;
    let generation = enforcement.generation()?;
    Ok(format!("{FIRST_LINE}\nboot {}\npolicy {generation} {}\n", boot.trim(), state.nonce()))
}

const FIRST_LINE: &str = "touchmark order 1";

/// Only challenges are signed: an order must not become a way to have anything signed.
fn read_challenge(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().take(CHALLENGE_MAX).read_to_string(&mut text)
    } else {
        fs::File::open(path).and_then(|file| file.take(CHALLENGE_MAX).read_to_string(&mut text))
    };
    read.with_context(|| format!("cannot read {}", path.display()))?;
    anyhow::ensure!(
        text.lines().next() == Some(FIRST_LINE),
        "expected a challenge (its first line is `{FIRST_LINE}`) in {}, found something else; \
         `touchmark order challenge` prints one",
        path.display()
    );
    Ok(text)
}

fn statement(text: &[u8]) -> Statement {
    let mut hasher = Hasher::new();
    hasher.update(text);
    let digest: Digest = hasher.finish();
    Statement::new(Kind::Policy, digest)
}
