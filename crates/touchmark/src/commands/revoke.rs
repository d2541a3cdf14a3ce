// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark revoke`: takes back what was signed or approved.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use touchmark_enforce::{EnforceError, Enforcement, TrustChange};
use touchmark_sign::certificate::{Certificate, Trust};
use touchmark_sign::digest::Digest;
use touchmark_sign::revocation::{Reason, RevocationList, SignedList};

use super::revoke_targets::Targets;
use crate::authority::Authority;
use crate::exit::UsageError;
use crate::keys::{self, KeyArgs, SecretArgs};
use crate::revocations::running::{Running, Search};
use crate::revocations::store::{self, Seen, Store, StoreError};
use crate::revocations::{for_kernel, read_list};
use crate::state::{Lock, State};
use crate::text::printable;
use crate::{Exit, daemon};

/// Arguments of `touchmark revoke`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "\
touchmark revoke [OPTIONS] --reason <TEXT> --key <FILE|URI> --cert <FILE> \
<--file <FILE>|--signature <FILE|ID>|--certificate <FILE|FINGERPRINT>|--digest <DIGEST>>...
       touchmark revoke [OPTIONS] --renew --key <FILE|URI> --cert <FILE>
       touchmark revoke [--trust <FILE>] [--stop] --list <FILE>")]
#[command(after_help = "\
The list in force gets a higher version, is signed, kept in /var/lib/touchmark and counts at once, whatever was decided \
before. What is revoked is not started or mapped any more; what runs already is named, and goes on unless --stop is \
given. A revoked certificate takes with it all that it signed, unless another one signed it too.

Where the key should not be: `revoke --out FILE` goes on with the list in FILE and changes nothing else; \
`revoke --list FILE` on each machine then puts it in force.

Exit codes: 0 done; 1 done, and something revoked still runs; 2 wrong usage; 3 could not do it.")]
pub(crate) struct Args {
    #[command(flatten)]
    targets: Targets,
    /// Why, for those who are refused; one line
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Sign the list anew and revoke nothing more, as before its signer is taken out of force
    #[arg(long)]
    renew: bool,
    /// Put this list in force, signed elsewhere by a certificate in force
    #[arg(long, value_name = "FILE", conflicts_with_all = ["reason", "renew", "out", "key", "Targets"])]
    list: Option<PathBuf>,
    /// The private key: a PEM file, or a PKCS#11 URI
    #[arg(long, value_name = "FILE|URI", requires = "cert")]
    key: Option<String>,
    /// Its certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Read the key's passphrase, or the token's PIN, from the first line of this file
    #[arg(long, value_name = "FILE", requires = "key")]
    passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    secrets: SecretArgs,
    /// Go on with the list in this file and write it there; this machine stays as it is
    #[arg(long, value_name = "FILE", conflicts_with = "stop")]
    out: Option<PathBuf>,
    /// Trust a list by this certificate as well, while none is in force or with --out (PEM, may hold several)
    #[arg(long, value_name = "FILE")]
    trust: Vec<PathBuf>,
    /// End processes that run something revoked, by SIGKILL
    #[arg(long)]
    stop: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(out) = &args.out {
        return write_out(args, out);
    }
    if !rustix::process::geteuid().is_root() {
        anyhow::bail!("revoking on this machine needs root; try: sudo touchmark revoke ... (or --out FILE)");
    }
    let _lock = Lock::change()?;
    let machine = Machine::look()?;
    let (bytes, signed) = match &args.list {
        Some(path) => read_list(path)?,
        None => made(args, &machine)?,
    };
    let trust = machine.trust(args)?;
    let authority = accept(&signed, &bytes, &machine, &trust)?;
    Store::system().put(signed.list.version, &bytes)?;
    machine.apply(&signed.list, &authority)?;
    println!("revocation list version {}, {} entries, in force", signed.list.version, signed.list.entries.len());
    if machine.enforcement.is_none() {
        println!("enforcement is not running: the list counts as soon as it is (touchmark enforce)");
    }
    report_running(&authority, args.stop)
}

/// What counts on this machine now.
struct Machine {
    enforcement: Option<Enforcement>,
    /// The certificates named to `touchmark enforce`, while it lasts.
    certificates: Option<Vec<Certificate>>,
    /// The version of the newest list in force, by the kernel and by the disk.
    floor: u64,
}

impl Machine {
    fn look() -> anyhow::Result<Self> {
        let enforcement = match Enforcement::running() {
            // Nothing was ever loaded where BPF objects cannot even be pinned.
            Err(EnforceError::NoBpffs { .. }) => None,
            other => other?,
        };
        // While there is enforcement, nobody is trusted but by what it was told.
        let state = enforcement.as_ref().map(State::in_force).transpose()?;
        let in_kernel = enforcement.as_ref().map_or(Ok(0), Enforcement::revocation_version)?;
        let on_disk = seen()?.map_or(0, |seen| seen.version);
        let certificates = state.map(|state| state.certificates()).transpose()?;
        Ok(Self { enforcement, certificates, floor: in_kernel.max(on_disk) })
    }

    /// Whose lists count: the certificates in force and, while there are none, those named on the command line.
    fn trust(&self, args: &Args) -> anyhow::Result<Trust> {
        let Some(certificates) = &self.certificates else {
            let mut named = keys::read_certificates(&args.trust)?;
            if args.key.is_some() {
                named.push(key(args)?.certificate()?);
            }
            return Ok(Trust::new(named));
        };
        if !args.trust.is_empty() {
            return Err(UsageError("--trust: certificates are in force, and those count".to_owned()).into());
        }
        Ok(Trust::new(certificates.clone()))
    }

    /// Lets the list count. The daemon must not admit by what it knew before.
    fn apply(&self, list: &RevocationList, authority: &Authority) -> anyhow::Result<()> {
        let Some(enforcement) = &self.enforcement else { return Ok(()) };
        let serves = daemon::serves()?;
        if serves {
            daemon::stop()?;
        }
        // The same state, which the kernel's side vouches for under each policy anew.
        let state = State::new(self.certificates.as_deref().unwrap_or_default())?.prepare(enforcement)?;
        let trust = TrustChange::Extend(authority.certificates());
        let applied = match enforcement.revoke(&for_kernel(list), trust, state.digest) {
            Ok(()) => state.commit(),
            Err(error) => Err(error.into()),
        };
        if serves {
            daemon::start()?;
        }
        applied
    }
}

/// The list in force with the new entries, signed.
fn made(args: &Args, machine: &Machine) -> anyhow::Result<(Vec<u8>, SignedList)> {
    let trust = machine.trust(args)?;
    let old = Store::system().load(&trust, machine.floor).context("cannot add to the revocation list in force")?;
    let text = next(args, old, machine.floor)?;
    let signed = SignedList::parse(text.as_bytes())?;
    Ok((text.into_bytes(), signed))
}

fn write_out(args: &Args, out: &Path) -> anyhow::Result<Exit> {
    let key = key(args)?;
    let mut trusted = keys::read_certificates(&args.trust)?;
    trusted.push(key.certificate()?);
    let old = if out.exists() {
        let (_, signed) = read_list(out)?;
        signed
            .verify(&Trust::new(trusted))
            .with_context(|| format!("{}: expected a list by --cert or by --trust FILE", out.display()))?;
        Some(signed.list)
    } else {
        None
    };
    let text = next(args, old, 0)?;
    store::replace(out, text.as_bytes()).with_context(|| format!("cannot write {}", out.display()))?;
    let list = SignedList::parse(text.as_bytes())?.list;
    println!(
        "{}: revocation list version {}, {} entries; put it in force by: touchmark revoke --list {0}",
        printable(out),
        list.version,
        list.entries.len()
    );
    Ok(Exit::Success)
}

/// The next list: the old one and what is to be added, with a version above both `floor` and the old one's.
fn next(args: &Args, old: Option<RevocationList>, floor: u64) -> anyhow::Result<String> {
    let key = key(args)?;
    let mut list = old.unwrap_or_else(|| RevocationList { version: 0, issued: 0, entries: Default::default() });
    let targets = args.targets.read()?;
    if targets.is_empty() && !args.renew {
        return Err(UsageError(
            "expected --file, --signature, --certificate or --digest (or --list FILE, or --renew)".to_owned(),
        )
        .into());
    }
    if targets.is_empty() != args.reason.is_none() {
        return Err(UsageError("expected --reason TEXT with what is revoked, and only then".to_owned()).into());
    }
    for (target, text) in targets.iter().zip(args.reason.iter().cycle()) {
        let reason = Reason::new(text).map_err(|error| UsageError(format!("--reason: {error}")))?;
        list.entries.insert(*target, reason);
    }
    let above = list.version.max(floor);
    list.version = above.checked_add(1).context("expected a version that can rise, found the highest")?;
    list.issued = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (signer, certificate) = key.open()?;
    let text = list.sign(signer.as_ref(), &certificate)?;
    targets.iter().for_each(|target| println!("revoked: {target}"));
    Ok(text)
}

fn key(args: &Args) -> anyhow::Result<KeyArgs> {
    match (&args.key, &args.cert) {
        (Some(key), Some(cert)) => {
            Ok(KeyArgs::new(key.clone(), cert.clone(), args.passphrase_file.clone(), args.secrets.clone()))
        }
        _ => Err(UsageError("expected --key KEY and --cert CERT (or --list FILE)".to_owned()).into()),
    }
}

/// Checks that a list may take the place of the one in force: newer, or the very same, and by a certificate that neither
/// of the two revokes.
fn accept(signed: &SignedList, bytes: &[u8], machine: &Machine, trust: &Trust) -> anyhow::Result<Authority> {
    let (version, store) = (signed.list.version, Store::system());
    let same = seen()?.is_some_and(|seen| seen.version == version && seen.digest == Digest::of(bytes));
    if version <= machine.floor && !(same && version == machine.floor) {
        anyhow::bail!(
            "expected a revocation list newer than version {}, which is in force, found version {version}",
            machine.floor
        );
    }
    if trust.certificates().is_empty() {
        return Err(UsageError("expected --trust FILE: no certificates are in force".to_owned()).into());
    }
    // What the list in force revokes vouches for no other. If that list is not there any more, or another one lies in
    // its place, the certificates that it left are not known, but a version above it is.
    let old = store.load(trust, machine.floor).ok().flatten();
    let left = old.as_ref().filter(|_| !same).map_or_else(|| trust.clone(), |old| old.remaining(trust));
    signed.verify(&left).context("expected a revocation list by a certificate in force")?;
    Ok(Authority::new(trust.clone(), Some(signed.list.clone())))
}

/// What the disk says was the newest list. If that cannot be read, a list that is put in force repairs it.
fn seen() -> anyhow::Result<Option<Seen>> {
    match Store::system().seen() {
        Err(StoreError::Seen { .. }) => Ok(None),
        other => Ok(other?),
    }
}

/// Names what is revoked and runs, and ends it if so told.
fn report_running(authority: &Authority, stop: bool) -> anyhow::Result<Exit> {
    let mut search = Search::new(authority);
    let mut left = 0;
    let tell = |running: &Running, what: &str| {
        println!(
            "{what}: process {} ({}): {}: {}",
            running.pid,
            printable(&running.command),
            printable(&running.file),
            printable(&running.reason)
        );
    };
    if stop {
        left = search.stop_all(|running, ended| tell(running, if ended { "stopped" } else { "not stopped" }))?;
    } else {
        for running in search.all()? {
            tell(&running, "running");
            left += 1;
        }
    }
    Ok(if left == 0 { Exit::Success } else { Exit::Findings })
}
