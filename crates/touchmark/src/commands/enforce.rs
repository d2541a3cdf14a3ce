// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark enforce`: turns enforcement on, changes it, or turns it off.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use touchmark_enforce::{Enforcement, Mode, Policy, Scope, TrustChange};
use touchmark_sign::certificate::Certificate;

use super::preflight;
use crate::exit::UsageError;
use crate::state::{Lock, State};
use crate::{Exit, daemon, keys};

/// Arguments of `touchmark enforce`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Certificates stay in force until others are given. Everything stays until the machine restarts; \
to enforce from the start, run this command early in the boot.

The first time, use `--mode permissive`, look at `touchmark events`, sign what is named there, and then enforce. \
`--trial 10m` enforces for ten minutes and then is permissive again, whatever happens.")]
pub(crate) struct Args {
    /// Trust signatures by this certificate (PEM, may hold several); replaces the certificates in force
    #[arg(long, value_name = "FILE")]
    cert: Vec<PathBuf>,
    /// What happens to code that is not approved
    #[arg(long, value_enum, default_value_t = ModeArg::Enforce)]
    mode: ModeArg,
    /// Whose executions are checked: all, cgroup:PATH (tasks in it) or mount:PATH (files on that file system)
    #[arg(long, default_value = "all")]
    scope: Scope,
    /// Enforce this long, then be permissive (as in 30s, 10m, 2h)
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    trial: Option<Duration>,
    /// Refuse programs on network, FUSE and overlay file systems; otherwise they are hashed at every use
    #[arg(long)]
    refuse_uncacheable: bool,
    /// Report what was allowed after a check, too
    #[arg(long)]
    log_allowed: bool,
    /// Enforce even if programs that are running now would be refused
    #[arg(long)]
    force: bool,
    /// Do not start touchmarkd: no events are logged, and embedded signatures need `touchmark admit`
    #[arg(long)]
    no_daemon: bool,
    /// Say nothing when all went well
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// Nothing is checked, and the programs are removed from the kernel
    Off,
    /// It runs, and an event says that it would have been blocked
    Permissive,
    /// It is blocked
    Enforce,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if !rustix::process::geteuid().is_root() {
        anyhow::bail!("changing enforcement needs root; try: sudo touchmark enforce ...");
    }
    let _lock = Lock::change()?;
    if args.mode == ModeArg::Off {
        return turn_off(args);
    }
    let policy = policy(args)?;
    let in_force = in_force()?;
    let certificates = certificates(args, in_force.as_deref())?;
    let trust = trust_change(in_force.as_deref(), &certificates);
    let approvals = if policy.mode == Mode::Enforce && !args.force {
        preflight::check(&policy.scope, &certificates)?
    } else {
        Vec::new()
    };
    let enforcement = Enforcement::start()?;
    State::new(&certificates).save()?;
    // A daemon that serves goes on with the old certificates until it is restarted; one that does not is started
    // first, so that what it admits is admitted from the first moment on.
    let restart = trust != TrustChange::Keep && daemon::serves()?;
    if !args.no_daemon && !restart {
        daemon::start()?;
    }
    enforcement.apply(&policy, trust, &approvals)?;
    if !args.no_daemon && restart {
        daemon::restart()?;
    }
    if !args.quiet {
        report(&policy, &certificates, &enforcement)?;
    }
    Ok(Exit::Success)
}

fn turn_off(args: &Args) -> anyhow::Result<Exit> {
    let running = Enforcement::running()?;
    let word = if running.is_some() { "is off" } else { "was off already" };
    running.map(Enforcement::stop).transpose()?;
    daemon::stop()?;
    if !args.quiet {
        println!("enforcement {word}");
    }
    Ok(Exit::Success)
}

fn policy(args: &Args) -> anyhow::Result<Policy> {
    if args.trial.is_some() && args.mode != ModeArg::Enforce {
        return Err(UsageError("--trial goes with --mode enforce".to_owned()).into());
    }
    Ok(Policy {
        mode: if args.mode == ModeArg::Enforce { Mode::Enforce } else { Mode::Permissive },
        scope: args.scope.clone(),
        allow_uncacheable: !args.refuse_uncacheable,
        log_allowed: args.log_allowed,
        trial: args.trial,
    })
}

/// The certificates that count now.
fn in_force() -> anyhow::Result<Option<Vec<Certificate>>> {
    match (Enforcement::running()?, State::load()?) {
        (Some(_), Some(state)) => Ok(Some(state.certificates()?)),
        _ => Ok(None),
    }
}

/// The certificates that are to count: those given, else those in force.
fn certificates(args: &Args, in_force: Option<&[Certificate]>) -> anyhow::Result<Vec<Certificate>> {
    if args.cert.is_empty() {
        return Ok(in_force.map(<[_]>::to_vec).ok_or_else(|| {
            UsageError(
                "expected --cert FILE: no certificates are in force yet (make one: touchmark key generate)".into(),
            )
        })?);
    }
    keys::read_certificates(&args.cert)
}

fn trust_change<'a>(in_force: Option<&[Certificate]>, wanted: &'a [Certificate]) -> TrustChange<'a> {
    match in_force {
        Some(in_force) if in_force == wanted => TrustChange::Keep,
        Some(in_force) if in_force.iter().all(|old| wanted.contains(old)) => TrustChange::Extend(wanted),
        _ => TrustChange::Replace(wanted),
    }
}

fn report(policy: &Policy, certificates: &[Certificate], enforcement: &Enforcement) -> anyhow::Result<()> {
    println!("mode {}, scope {}, {} certificate(s)", policy.mode, policy.scope, certificates.len());
    if let Some(trial) = policy.trial {
        println!("permissive again in {}", humantime::format_duration(trial));
    }
    if !enforcement.verifies_signatures()? {
        println!(
            "this kernel cannot check signatures in xattrs: only programs with an embedded signature, and files that \
             `touchmark admit` approved, may run (see `touchmark doctor`)"
        );
    }
    Ok(())
}
