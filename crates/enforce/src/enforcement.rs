// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The handle on the pinned programs and maps.

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use touchmark_sign::certificate::Certificate;
use touchmark_sign::digest::Digest;
use touchmark_sys::keyring::KeySerial;
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{ABI_VERSION, Mode, RawPolicy, Reason, counter};
use crate::policy::{Policy, boot_time_ns, next_generation};
use crate::{EnforceError, keyring, object, pins, probe};

/// Enforcement as it stands in the kernel. It goes on without any process holding this.
pub struct Enforcement {
    policies: MapHandle,
    active: MapHandle,
    approved: MapHandle,
    counters: MapHandle,
}

/// What the kernel counted since the programs were loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Decisions by reason; [`Reason::Cached`] is the hits.
    pub decisions: Vec<(Reason, u64)>,
    /// Files hashed.
    pub hashes: u64,
    /// Verdicts dropped because their file may change.
    pub verdicts_dropped: u64,
    /// Events lost because nobody read them in time.
    pub events_lost: u64,
    /// Decisions to deny that permissive mode let through.
    pub permitted: u64,
}

/// What becomes of the certificates in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustChange<'a> {
    /// They stay.
    Keep,
    /// These count from now on; they include all that counted before, so what was approved stays approved.
    Extend(&'a [Certificate]),
    /// These count from now on; what was approved under the old ones is forgotten.
    Replace(&'a [Certificate]),
}

impl<'a> TrustChange<'a> {
    fn certificates(self) -> Option<&'a [Certificate]> {
        match self {
            Self::Keep => None,
            Self::Extend(certificates) | Self::Replace(certificates) => Some(certificates),
        }
    }
}

impl Enforcement {
    /// The enforcement that is running; `None` if there is none.
    ///
    /// # Errors
    /// No BPF file system, no permission, or pins of another version.
    pub fn running() -> Result<Option<Self>, EnforceError> {
        if !pins::exist()? {
            return Ok(None);
        }
        let enforcement = Self {
            policies: pins::map("policies")?,
            active: pins::map("active")?,
            approved: pins::map("approved")?,
            counters: pins::map("counters")?,
        };
        let found = enforcement.raw_policy()?.abi_version;
        // Version 0: loaded, but no policy was written yet.
        if found != ABI_VERSION && found != 0 {
            return Err(EnforceError::AbiMismatch { expected: ABI_VERSION, found });
        }
        Ok(Some(enforcement))
    }

    /// The enforcement that is running, or one newly loaded and pinned, with mode `off`.
    ///
    /// # Errors
    /// The kernel refuses to load, attach or pin; nothing is left active then.
    pub fn start() -> Result<Self, EnforceError> {
        if let Some(enforcement) = Self::running()? {
            return Ok(enforcement);
        }
        pins::attach_and_pin(&mut object::load()?)?;
        Self::running()?.ok_or(EnforceError::MapContent { map: "policies", expected: "a policy", found: 0 })
    }

    /// Makes `policy` count from now on; all cached verdicts fall. `approvals` are approved before it does, so that
    /// nothing is refused in between.
    ///
    /// # Errors
    /// The scope does not exist, a certificate does not load, or the kernel refuses; then the old policy goes on.
    pub fn apply(&self, policy: &Policy, trust: TrustChange<'_>, approvals: &[Digest]) -> Result<(), EnforceError> {
        let old = self.raw_policy()?;
        let generation = next_generation(old.generation);
        let keyring = match trust.certificates() {
            Some(certificates) if probe::verifies_signatures() => keyring::create(certificates, generation)?.0,
            Some(_) => 0,
            None => old.keyring,
        };
        let change = || {
            let raw = policy.to_raw(generation, keyring)?;
            if matches!(trust, TrustChange::Replace(_)) {
                self.forget_approvals()?;
            }
            approvals.iter().try_for_each(|digest| self.approve(digest))?;
            self.write_policy(&raw)
        };
        let changed = change();
        let unused = if changed.is_ok() { old.keyring } else { keyring };
        if keyring != old.keyring && unused != 0 {
            keyring::discard(KeySerial(unused));
        }
        changed
    }

    /// The mode that counts now; a trial that ran out counts as permissive.
    ///
    /// # Errors
    /// The maps cannot be read.
    pub fn mode(&self) -> Result<Mode, EnforceError> {
        let raw = self.raw_policy()?;
        let mode = Mode::from_number(raw.mode).unwrap_or(Mode::Off);
        let over = raw.enforce_until_ns != 0 && boot_time_ns() >= raw.enforce_until_ns;
        Ok(if mode == Mode::Enforce && over { Mode::Permissive } else { mode })
    }

    /// How long a trial still enforces, in nanoseconds; `None` without a trial.
    ///
    /// # Errors
    /// The maps cannot be read.
    pub fn trial_left_ns(&self) -> Result<Option<u64>, EnforceError> {
        let until = self.raw_policy()?.enforce_until_ns;
        Ok((until != 0).then(|| until.saturating_sub(boot_time_ns())))
    }

    /// Whether the kernel checks signatures by itself (there is a keyring), or only approved digests.
    ///
    /// # Errors
    /// The maps cannot be read.
    pub fn verifies_signatures(&self) -> Result<bool, EnforceError> {
        Ok(self.raw_policy()?.keyring != 0)
    }

    /// Approves a file's SHA-256: from now on whatever has it may run. Cached refusals do not exist, so it holds at once.
    ///
    /// # Errors
    /// The map is full or cannot be written.
    pub fn approve(&self, digest: &Digest) -> Result<(), EnforceError> {
        self.approved
            .update(digest.as_ref(), &boot_time_ns().to_ne_bytes(), MapFlags::ANY)
            .map_err(EnforceError::kernel(format!("approve the digest {digest}")))
    }

    /// How many digests are approved.
    #[must_use]
    pub fn approved_count(&self) -> usize {
        self.approved.keys().count()
    }

    /// What the kernel counted, all CPUs together.
    ///
    /// # Errors
    /// The maps cannot be read.
    pub fn counters(&self) -> Result<Counters, EnforceError> {
        let decisions = Reason::ALL
            .iter()
            .map(|reason| Ok((*reason, self.counter(u32::from(*reason as u8))?)))
            .collect::<Result<_, EnforceError>>()?;
        Ok(Counters {
            decisions,
            hashes: self.counter(counter::HASHES)?,
            verdicts_dropped: self.counter(counter::VERDICTS_DROPPED)?,
            events_lost: self.counter(counter::EVENTS_LOST)?,
            permitted: self.counter(counter::PERMITTED)?,
        })
    }

    /// Ends enforcement: unpins everything, and the kernel detaches the programs.
    ///
    /// # Errors
    /// The pins cannot be removed.
    pub fn stop(self) -> Result<(), EnforceError> {
        // The kernel detaches what is unpinned a moment later; the mode counts at once.
        let RawPolicy { keyring, generation, .. } = self.raw_policy()?;
        let off =
            RawPolicy { abi_version: ABI_VERSION, generation: next_generation(generation), ..RawPolicy::default() };
        self.write_policy(&off)?;
        pins::remove_all()?;
        if keyring != 0 {
            keyring::discard(KeySerial(keyring));
        }
        Ok(())
    }

    fn active_slot(&self) -> Result<u32, EnforceError> {
        let bytes = lookup(&self.active, "active", 0)?;
        let slot = u32::read_from_bytes(&bytes).map_err(|_| malformed("active", "a slot number", &bytes))?;
        Ok(slot & 1)
    }

    fn raw_policy(&self) -> Result<RawPolicy, EnforceError> {
        let bytes = lookup(&self.policies, "policies", self.active_slot()?)?;
        RawPolicy::read_from_bytes(&bytes).map_err(|_| malformed("policies", "a policy", &bytes))
    }

    /// Writes the slot that does not count, then makes it count: no program ever sees half a policy.
    fn write_policy(&self, raw: &RawPolicy) -> Result<(), EnforceError> {
        let slot = 1 - self.active_slot()?;
        self.policies
            .update(&slot.to_ne_bytes(), raw.as_bytes(), MapFlags::ANY)
            .and_then(|()| self.active.update(&0_u32.to_ne_bytes(), &slot.to_ne_bytes(), MapFlags::ANY))
            .map_err(EnforceError::kernel("write the policy"))
    }

    fn forget_approvals(&self) -> Result<(), EnforceError> {
        for key in self.approved.keys() {
            match self.approved.delete(&key) {
                Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => {}
                other => other.map_err(EnforceError::kernel("forget an approved digest"))?,
            }
        }
        Ok(())
    }

    fn counter(&self, index: u32) -> Result<u64, EnforceError> {
        let per_cpu = self
            .counters
            .lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY)
            .map_err(EnforceError::kernel("read the counters"))?
            .unwrap_or_default();
        Ok(per_cpu.iter().filter_map(|value| u64::read_from_bytes(value).ok()).sum())
    }
}

fn lookup(map: &MapHandle, name: &'static str, index: u32) -> Result<Vec<u8>, EnforceError> {
    map.lookup(&index.to_ne_bytes(), MapFlags::ANY)
        .map_err(EnforceError::kernel(format!("read the map {name}")))?
        .ok_or(malformed(name, "an entry", &[]))
}

fn malformed(map: &'static str, expected: &'static str, found: &[u8]) -> EnforceError {
    EnforceError::MapContent { map, expected, found: found.len() }
}
