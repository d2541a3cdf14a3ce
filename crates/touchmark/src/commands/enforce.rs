// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark enforce`: turns enforcement on, changes it, or turns it off.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use touchmark_enforce::{Change, Enforcement, Mode, Policy, TrustChange};
use touchmark_sign::certificate::Certificate;
use touchmark_sign::digest::Digest;
use touchmark_sign::revocation::RevocationList;

use super::policy::{self, PolicyArgs};
use super::{order, preflight};
use crate::authority::Authority;
use crate::exit::UsageError;
use crate::state::{Lock, State};
use crate::{Exit, daemon, files, keys, revocations};

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
    #[command(flatten)]
    policy: PolicyArgs,
    /// Enforce even if programs that are running now would be refused
    #[arg(long)]
    force: bool,
    /// The order that a locked policy takes to be changed (see `touchmark order`)
    #[arg(long, value_name = "FILE")]
    order: Option<PathBuf>,
    /// Do not start touchmarkd: no events are logged, and embedded signatures need `touchmark admit`. One that serves
    /// by other certificates or an older revocation list is ended
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
    let running = Enforcement::running()?;
    if let Some(enforcement) = &running {
        order::require(enforcement, args.order.as_deref())?;
    }
    if args.mode == ModeArg::Off {
        return turn_off(running, args.quiet);
    }
    let mode = if args.mode == ModeArg::Enforce { Mode::Enforce } else { Mode::Permissive };
    let policy = args.policy.resolve(mode)?;
    let in_force = in_force(running.as_ref())?;
    let certificates = certificates(args, in_force.as_deref())?;
    // What is on the revocation list is not put in force; the list must be by one of the others.
    let authority = revocations::in_force(certificates.clone(), running.as_ref())?;
    let named = in_force.clone().unwrap_or_default();
    let in_force = in_force.map(|certificates| authority.with(certificates));
    let in_force = in_force.as_ref().map(Authority::certificates);
    let trust = trust_change(in_force, authority.certificates());
    let approvals =
        if mode == Mode::Enforce && !args.force { preflight::check(&policy.scope, &authority)? } else { Vec::new() };
    let enforcement = match running {
        Some(enforcement) => enforcement,
        None => Enforcement::start(&files::digest(Path::new("/proc/self/exe"))?)?,
    };
    let begins = enforcement.mode()? == Mode::Off;
    let (news, serves) = (news(&enforcement, &authority), daemon::serves()?);
    // One of another build is not known to the guard any more.
    let stale = serves && (news.is_some() || trust != TrustChange::Keep || (!args.no_daemon && daemon::is_outdated()?));
    if stale {
        // Before what it approved falls: else it would go on to approve by what it knew. The kernel goes on checking.
        daemon::stop()?;
    }
    let change = || -> anyhow::Result<Digest> {
        if let Some(list) = news {
            tell_revocations(&enforcement, list, in_force, &named)?;
        }
        let prepared = State::new(&certificates)?.prepare(&enforcement)?;
        let change = Change { trust, approvals: &approvals, state: prepared.digest };
        // Where nothing is checked yet, a daemon that starts now finds certificates to admit by, and is known as ours.
        let mode = if begins { Mode::Off } else { policy.mode };
        enforcement.apply(&Policy { mode, ..policy.clone() }, &change)?;
        let digest = prepared.digest;
        prepared.commit()?;
        Ok(digest)
    };
    let changed = change();
    // If nothing came of it, the one that served goes on, by what is in force still.
    let started = if !args.no_daemon && (stale || changed.is_ok()) { daemon::start() } else { Ok(()) };
    let state = changed?;
    started?;
    if begins {
        enforcement.apply(&policy, &Change { trust: TrustChange::Keep, approvals: &approvals, state })?;
    }
    policy::introduce(&args.policy);
    if !args.quiet {
        report(&policy, &authority, &enforcement)?;
    }
    Ok(Exit::Success)
}

fn turn_off(running: Option<Enforcement>, quiet: bool) -> anyhow::Result<Exit> {
    let word = if running.is_some() { "is off" } else { "was off already" };
    running.map(Enforcement::stop).transpose()?;
    daemon::stop()?;
    if !quiet {
        println!("enforcement {word}");
    }
    Ok(Exit::Success)
}

/// The revocation list, unless the kernel has it.
fn news<'a>(enforcement: &Enforcement, authority: &'a Authority) -> Option<&'a RevocationList> {
    authority.list().filter(|list| enforcement.revocation_version().ok() != Some(list.version))
}

/// Hands the list to the kernel. Nothing is approved before that.
fn tell_revocations(
    enforcement: &Enforcement,
    list: &RevocationList,
    in_force: Option<&[Certificate]>,
    named: &[Certificate],
) -> anyhow::Result<()> {
    // A list that was stored, but did not reach the kernel: then neither did the end of its certificates.
    let trust = in_force.map_or(TrustChange::Keep, TrustChange::Extend);
    // With the certificates named before, so that a change that fails after this leaves what was in force.
    let state = State::new(named)?.prepare(enforcement)?;
    enforcement.revoke(&revocations::for_kernel(list), trust, state.digest)?;
    state.commit()
}

/// The certificates that were named when enforcement began or was changed. If their record was tampered with, others must be given.
fn in_force(running: Option<&Enforcement>) -> anyhow::Result<Option<Vec<Certificate>>> {
    let Some(enforcement) = running else { return Ok(None) };
    match State::load(enforcement) {
        Ok(state) => state.map(|state| state.certificates()).transpose(),
        Err(error) => {
            eprintln!("touchmark: {error:#}");
            Ok(None)
        }
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

fn report(policy: &Policy, authority: &Authority, enforcement: &Enforcement) -> anyhow::Result<()> {
    println!("mode {}, scope {}, {} certificate(s)", policy.mode, policy.scope, authority.certificates().len());
    if let Some(list) = authority.list() {
        println!("revocation list version {}, {} entries", list.version, list.entries.len());
    }
    if let Some(trial) = policy.trial {
        println!("permissive again in {}", humantime::format_duration(trial));
    }
    if policy.lock {
        println!("locked until the machine restarts: changes take an order (`touchmark order --help`)");
    }
    if !enforcement.verifies_signatures()? {
        println!(
            "this kernel cannot check signatures in xattrs: only programs with an embedded signature, and files that \
             `touchmark admit` approved, may run (see `touchmark doctor`)"
        );
    }
    Ok(())
}
