// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark status`: mode, counts and memory of enforcement.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use touchmark_enforce::{Enforcement, Mode, Reason, Usage};
use touchmark_sign::certificate::{Certificate, Trust};

use crate::authority::Authority;
use crate::state::{self, State};
use crate::text::printable;
use crate::{Exit, revocations};

/// Arguments of `touchmark status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Status {
    mode: String,
    /// Seconds that a trial still enforces.
    #[serde(skip_serializing_if = "Option::is_none")]
    trial_left_seconds: Option<u64>,
    /// The daemon's process id.
    daemon: Option<i32>,
    /// Subjects of the certificates in force.
    certificates: Vec<String>,
    /// Whether the kernel checks xattr signatures by itself.
    kernel_checks_signatures: bool,
    approved_digests: usize,
    /// The revocation list in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    revocations: Option<List>,
    /// Why the list on disk cannot be the one in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    revocation_problem: Option<String>,
    hits: u64,
    hashes: u64,
    /// Decisions after a check, by reason.
    allowed: BTreeMap<&'static str, u64>,
    denied: BTreeMap<&'static str, u64>,
    /// Of the denied: let through because the mode was permissive.
    permitted: u64,
    /// Verdicts that fell, by what made them fall.
    verdicts_dropped: BTreeMap<&'static str, u64>,
    /// fs-verity digests taken instead of hashing.
    sealed: u64,
    /// Version of the revocation list in force; 0: none.
    revocation_list: u64,
    /// Whether only a signed order weakens the policy.
    locked: bool,
    events_lost: u64,
    /// Kernel memory in bytes, by name.
    programs: BTreeMap<String, u64>,
    maps: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct List {
    version: u64,
    entries: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let status = Enforcement::running()?.as_ref().map(Status::read).transpose()?;
    let mut out = io::stdout().lock();
    match (&status, args.json) {
        (Some(status), true) => writeln!(out, "{}", serde_json::to_string(status)?)?,
        (None, true) => writeln!(out, "{}", serde_json::json!({ "mode": Mode::Off.word() }))?,
        (Some(status), false) => status.print(&mut out)?,
        (None, false) => writeln!(out, "mode         off (nothing is loaded; `touchmark enforce` starts it)")?,
    }
    Ok(Exit::Success)
}

impl Status {
    fn read(enforcement: &Enforcement) -> anyhow::Result<Self> {
        let counters = enforcement.counters()?;
        let select = |wanted: fn(&Reason) -> bool| {
            let of_kind = counters.decisions.iter().filter(|(reason, _)| wanted(reason));
            of_kind.map(|(reason, count)| (reason.word(), *count)).collect()
        };
        // A state file that somebody replaced hides nothing but itself.
        let certificates = State::load(enforcement).unwrap_or_else(|error| {
            eprintln!("touchmark: {error:#}");
            None
        });
        let certificates = certificates.map_or(Ok(Vec::new()), |state| state.certificates())?;
        let (authority, revocation_problem) = match revocations::in_force(certificates.clone(), Some(enforcement)) {
            Ok(authority) => (authority, None),
            Err(error) => (Authority::new(Trust::new(certificates), None), Some(format!("{error:#}"))),
        };
        Ok(Self {
            mode: enforcement.mode()?.to_string(),
            trial_left_seconds: enforcement.trial_left_ns()?.map(|left| Duration::from_nanos(left).as_secs()),
            daemon: state::daemon_pid()?,
            certificates: authority.certificates().iter().map(Certificate::subject).collect(),
            kernel_checks_signatures: enforcement.verifies_signatures()?,
            approved_digests: enforcement.approved_count(),
            revocations: authority.list().map(|list| List { version: list.version, entries: list.entries.len() }),
            revocation_problem,
            hits: counters
                .decisions
                .iter()
                .find(|(reason, _)| *reason == Reason::Cached)
                .map_or(0, |(_, count)| *count),
            hashes: counters.hashes,
            allowed: select(|reason| reason.allows() && *reason != Reason::Cached),
            denied: select(|reason| !reason.allows()),
            permitted: counters.permitted,
            verdicts_dropped: counters.dropped.into_iter().collect(),
            sealed: counters.sealed,
            revocation_list: enforcement.revocation_version()?,
            locked: enforcement.locked()?,
            events_lost: counters.events_lost,
            programs: memory(Usage::programs()?),
            maps: memory(Usage::maps()?),
        })
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        write!(out, "mode         {}", self.mode)?;
        match self.trial_left_seconds {
            Some(0) => writeln!(out, " (the trial is over)")?,
            Some(left) => writeln!(out, " (permissive in {})", humantime::format_duration(Duration::from_secs(left)))?,
            None => writeln!(out)?,
        }
        if self.locked {
            writeln!(out, "locked       changes take an order signed by a trusted key (`touchmark order`)")?;
        }
        match self.revocation_list {
            0 => writeln!(out, "revocations  none")?,
            version => writeln!(out, "revocations  list {version} (`touchmark revoked` shows it)")?,
        }
        match self.daemon {
            Some(pid) => writeln!(out, "daemon       touchmarkd, process {pid}")?,
            None => writeln!(out, "daemon       not running: no events are logged (`touchmark enforce` starts it)")?,
        }
        for certificate in &self.certificates {
            writeln!(out, "certificate  {certificate}")?;
        }
        writeln!(
            out,
            "signatures   checked {}",
            if self.kernel_checks_signatures { "in the kernel" } else { "by `touchmark admit` and the daemon only" }
        )?;
        writeln!(out, "approved     {} digests", self.approved_digests)?;
        if let Some(List { version, entries }) = self.revocations {
            writeln!(out, "revoked      {entries} (list version {version}; `touchmark revoked` shows them)")?;
        }
        if let Some(problem) = &self.revocation_problem {
            writeln!(out, "revoked      what the kernel knows; on disk: {}", printable(problem))?;
        }
        writeln!(out, "hits         {} (verdict known)", self.hits)?;
        writeln!(out, "hashes       {}, and {} digests of sealed files", self.hashes, self.sealed)?;
        print_counts(out, "allowed", &self.allowed)?;
        print_counts(out, "denied", &self.denied)?;
        writeln!(out, "permitted    {} of the denied, because the mode was permissive", self.permitted)?;
        print_counts(out, "dropped", &self.verdicts_dropped)?;
        writeln!(out, "events lost  {}", self.events_lost)?;
        print_memory(out, "programs", &self.programs)?;
        print_memory(out, "maps", &self.maps)
    }
}

fn memory(list: Vec<Usage>) -> BTreeMap<String, u64> {
    list.into_iter().map(|usage| (usage.name, usage.bytes)).collect()
}

fn print_counts(out: &mut impl Write, label: &str, counts: &BTreeMap<&'static str, u64>) -> io::Result<()> {
    write!(out, "{label:<12} {}", counts.values().sum::<u64>())?;
    let parts: Vec<_> = counts.iter().filter(|(_, n)| **n > 0).map(|(reason, n)| format!("{reason} {n}")).collect();
    if parts.is_empty() { writeln!(out) } else { writeln!(out, " ({})", parts.join(", ")) }
}

fn print_memory(out: &mut impl Write, label: &str, parts: &BTreeMap<String, u64>) -> io::Result<()> {
    let total: u64 = parts.values().sum();
    writeln!(out, "{label:<12} {}, {} KiB of kernel memory", parts.len(), total.div_ceil(1024))
}
