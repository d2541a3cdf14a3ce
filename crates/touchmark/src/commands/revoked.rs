// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark revoked`: shows the revocation list of this machine.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use touchmark_enforce::Enforcement;
use touchmark_sign::certificate::Trust;
use touchmark_sign::revocation::{RevocationList, SignedList};

use crate::Exit;
use crate::revocations::store::Store;
use crate::state::State;

/// Arguments of `touchmark revoked`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes: 0 nothing is revoked, or the list is in order; 1 the list is signed by nobody in force; 2 wrong usage; \
3 the list cannot be read, or is older than the one that was in force.")]
pub(crate) struct Args {
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// The JSON object.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    version: u64,
    /// RFC 3339, UTC.
    issued: Option<String>,
    /// Who signed, if that was checked and holds.
    signer: Option<String>,
    /// Why the signature was not checked, or does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    unchecked: Option<String>,
    entries: Vec<Entry<'a>>,
}

#[derive(Debug, Serialize)]
struct Entry<'a> {
    kind: &'static str,
    id: String,
    reason: &'a str,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut out = io::stdout().lock();
    let Some(signed) = Store::system().current(0)? else {
        if args.json {
            writeln!(out, "{}", serde_json::json!({ "version": 0, "entries": [] }))?;
        } else {
            writeln!(out, "nothing is revoked")?;
        }
        return Ok(Exit::Success);
    };
    let (signer, unchecked, exit) = check(&signed)?;
    let shown = Shown::new(&signed.list, signer, unchecked);
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&shown)?)?;
    } else {
        shown.print(&signed.list, &mut out)?;
    }
    Ok(exit)
}

fn check(signed: &SignedList) -> anyhow::Result<(Option<String>, Option<String>, Exit)> {
    if !rustix::process::geteuid().is_root() {
        return Ok((None, Some("root alone can read which certificates are in force".to_owned()), Exit::Success));
    }
    let state = match Enforcement::running() {
        Ok(Some(enforcement)) => State::load(&enforcement)?,
        _ => None,
    };
    let Some(state) = state else {
        return Ok((None, Some("no certificates are in force".to_owned()), Exit::Success));
    };
    let trust = Trust::new(state.certificates()?);
    Ok(match signed.verify(&trust) {
        Ok(certificate) => (Some(certificate.subject()), None, Exit::Success),
        Err(error) => (None, Some(error.to_string()), Exit::Findings),
    })
}

impl<'a> Shown<'a> {
    fn new(list: &'a RevocationList, signer: Option<String>, unchecked: Option<String>) -> Self {
        let issued = UNIX_EPOCH.checked_add(Duration::from_secs(list.issued));
        let entries = list.entries.iter().map(|(target, reason)| Entry {
            kind: target.word(),
            id: target.id().to_string(),
            reason: reason.as_str(),
        });
        Self {
            version: list.version,
            issued: issued.map(|issued| humantime::format_rfc3339_seconds(issued).to_string()),
            signer,
            unchecked,
            entries: entries.collect(),
        }
    }

    fn print(&self, list: &RevocationList, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "version  {}", self.version)?;
        writeln!(out, "issued   {}", self.issued.as_deref().unwrap_or_default())?;
        match (&self.signer, &self.unchecked) {
            (Some(signer), _) => writeln!(out, "signer   {}", crate::text::printable(signer))?,
            (None, why) => {
                writeln!(out, "signer   not checked: {}", crate::text::printable(why.as_deref().unwrap_or_default()))?
            }
        }
        for (target, reason) in &list.entries {
            // Written so that it is one line and nothing in it steers a terminal.
            writeln!(out, "{target}  {reason}")?;
        }
        Ok(())
    }
}
