// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The handle on the pinned programs and maps.

use std::collections::HashSet;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use touchmark_sign::certificate::Certificate;
use touchmark_sign::digest::Digest;
use touchmark_sign::statement::Kind;
use touchmark_sys::keyring::KeySerial;
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{ABI_VERSION, Mode, RawApproval, RawPolicy, Role, flag};
use crate::approval::{self, Approval, Revocations, Revoked};
use crate::counters::Counters;
use crate::policy::{Completion, Policy, boot_time_ns, next_generation};
use crate::{EnforceError, filesystems, guard, keyring, object, pins, probe, table};

/// Enforcement as it stands in the kernel. It goes on without any process holding this.
pub struct Enforcement {
    policies: MapHandle,
    active: MapHandle,
    approved: MapHandle,
    revoked: MapHandle,
    roles: MapHandle,
    filesystems: MapHandle,
    counters: MapHandle,
}

/// What goes with a new policy.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// What becomes of the certificates.
    pub trust: TrustChange<'a>,
    /// What is approved before the policy counts, so that nothing is refused in between.
    pub approvals: &'a [Approval],
    /// SHA-256 of the state file that the daemon reads; it trusts no other.
    pub state: Digest,
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
    /// No BPF file system, no permission, pins of another version, or something that lies over a pin.
    pub fn running() -> Result<Option<Self>, EnforceError> {
        if !pins::exist()? {
            return Ok(None);
        }
        let enforcement = Self {
            policies: pins::map("policies")?,
            active: pins::map("active")?,
            approved: pins::map("approved")?,
            revoked: pins::map("revoked")?,
            roles: pins::map("roles")?,
            filesystems: pins::map("filesystems")?,
            counters: pins::map("counters")?,
        };
        let found = enforcement.raw_policy()?.abi_version;
        // Version 0: loaded, but no policy was written yet.
        if found != ABI_VERSION && found != 0 {
            return Err(EnforceError::AbiMismatch { expected: ABI_VERSION, found });
        }
        pins::check()?;
        Ok(Some(enforcement))
    }

    /// The enforcement that is running, or one newly loaded and pinned, with mode `off`. `own` is the SHA-256 of the
    /// running program.
    ///
    /// # Errors
    /// The kernel refuses to load, attach or pin; nothing is left active then.
    pub fn start(own: &Digest) -> Result<Self, EnforceError> {
        if let Some(enforcement) = Self::running()? {
            return Ok(enforcement);
        }
        pins::attach_and_pin(&mut object::load()?)?;
        guard::register()?;
        guard::introduce_self(own)?;
        Self::running()?.ok_or(EnforceError::MapContent { map: "policies", expected: "a policy", found: 0 })
    }

    /// Makes `policy` count from now on; all cached verdicts fall.
    ///
    /// # Errors
    /// The scope does not exist, a certificate does not load, or the kernel refuses; then the old policy goes on.
    pub fn apply(&self, policy: &Policy, change: &Change<'_>) -> Result<(), EnforceError> {
        let old = self.raw_policy()?;
        self.change_trust(&old, change.trust, |generation, keyring| {
            let completion =
                Completion { generation, keyring, revocations: old.revocations, state: approval::bytes(&change.state) };
            let raw = policy.to_raw(&completion)?;
            if matches!(change.trust, TrustChange::Replace(_)) {
                // Before the policy, under which no old approval may be found. What is approved anew is never missing:
                // a run that is killed here leaves what keeps the machine usable.
                table::replace(&self.approved, &change.approvals.iter().map(approval_entry).collect::<Vec<_>>())?;
            } else {
                change.approvals.iter().try_for_each(|approval| self.approve(approval))?;
            }
            let treatments = filesystems::table(&policy.file_systems, policy.refuse_uncacheable);
            table::replace(&self.filesystems, &treatments.iter().map(treatment_entry).collect::<Vec<_>>())?;
            table::replace(&self.roles, &role_entries(&policy.roles))?;
            self.write_policy(&raw)
        })
    }

    /// Puts a revocation list in force: all cached verdicts fall, and approvals by revoked certificates and
    /// signatures. `state` is as
    /// in [`Change`]. A list cannot make anything run that did not.
    ///
    /// # Errors
    /// A newer list is in force, a certificate does not load, or the kernel refuses; then the old list goes on.
    pub fn revoke(&self, list: &Revocations, trust: TrustChange<'_>, state: Digest) -> Result<(), EnforceError> {
        let old = self.raw_policy()?;
        if list.version < old.revocations {
            return Err(EnforceError::OldRevocations { expected: old.revocations, found: list.version });
        }
        self.change_trust(&old, trust, |generation, keyring| {
            let now = boot_time_ns().to_ne_bytes().to_vec();
            let entries: Vec<_> =
                list.entries.iter().map(|entry| (entry.to_raw().as_bytes().to_vec(), now.clone())).collect();
            table::replace(&self.revoked, &entries)?;
            let certificates = list.certificates.iter().map(approval::bytes).collect();
            let signatures = list.entries.iter().filter_map(Revoked::signature).collect();
            table::remove(&self.approved, |key| self.vouched_by(key, &certificates, &signatures))?;
            let state = approval::bytes(&state);
            self.write_policy(&RawPolicy { generation, keyring, revocations: list.version, state, ..old })
        })
    }

    /// The version of the revocation list in force; 0 if there is none.
    ///
    /// # Errors
    /// The maps cannot be read.
    pub fn revocation_version(&self) -> Result<u64, EnforceError> {
        Ok(self.raw_policy()?.revocations)
    }

    /// Whether only a signed order may weaken the policy.
    ///
    /// # Errors
    /// The maps cannot be read.
    pub fn locked(&self) -> Result<bool, EnforceError> {
        Ok(self.raw_policy()?.flags & flag::LOCK != 0)
    }

    /// The number of the policy; it rises with each change, so it makes an order for one change good for one only.
    ///
    /// # Errors
    /// The maps cannot be read.
    pub fn generation(&self) -> Result<u32, EnforceError> {
        Ok(self.raw_policy()?.generation)
    }

    /// Whether this is the SHA-256 of the state file that belongs to the policy in force.
    ///
    /// # Errors
    /// The maps cannot be read.
    pub fn vouches_for_state(&self, digest: &Digest) -> Result<bool, EnforceError> {
        Ok(self.raw_policy()?.state == approval::bytes(digest))
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

    /// Approves a content: from now on whatever has it may run. Cached refusals do not exist, so it holds at once.
    ///
    /// # Errors
    /// The map is full or cannot be written.
    pub fn approve(&self, approval: &Approval) -> Result<(), EnforceError> {
        let (key, value) = approval_entry(approval);
        self.approved
            .update(&key, &value, MapFlags::ANY)
            .map_err(EnforceError::kernel(format!("approve the digest {}", approval.digest)))
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
        Counters::read(&self.counters)
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

    /// Makes the keyring that `trust` asks for, lets `write` put it in force, and drops the one that is not needed.
    fn change_trust(
        &self,
        old: &RawPolicy,
        trust: TrustChange<'_>,
        write: impl FnOnce(u32, i32) -> Result<(), EnforceError>,
    ) -> Result<(), EnforceError> {
        let generation = next_generation(old.generation);
        let keyring = match trust.certificates() {
            Some(certificates) if probe::verifies_signatures() => keyring::create(certificates, generation)?.0,
            Some(_) => 0,
            None => old.keyring,
        };
        let changed = write(generation, keyring);
        let unused = if changed.is_ok() { old.keyring } else { keyring };
        if keyring != old.keyring && unused != 0 {
            keyring::discard(KeySerial(unused));
        }
        changed
    }

    /// Whether what is approved under this key was so by one of these certificates and signatures.
    fn vouched_by(&self, key: &[u8], certificates: &HashSet<[u8; 32]>, signatures: &HashSet<[u8; 32]>) -> bool {
        let value = self.approved.lookup(key, MapFlags::ANY).ok().flatten();
        let approval = value.and_then(|value| RawApproval::read_from_bytes(&value).ok());
        approval
            .is_some_and(|approval| certificates.contains(&approval.signer) || signatures.contains(&approval.signature))
    }
}

fn approval_entry(approval: &Approval) -> (Vec<u8>, Vec<u8>) {
    let (key, value) = approval.to_raw();
    (key.as_bytes().to_vec(), value.as_bytes().to_vec())
}

fn treatment_entry((magic, treatment): &(u64, crate::Treatment)) -> (Vec<u8>, Vec<u8>) {
    (magic.to_ne_bytes().to_vec(), vec![*treatment as u8])
}

/// One entry for each content, with all its roles.
fn role_entries(roles: &[(Digest, Role)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let all_of = |digest: &Digest| {
        let own = roles.iter().filter(|(other, _)| other == digest);
        own.fold(0_u32, |all, (_, role)| all | u32::from(*role as u8))
    };
    let entry = |digest: &Digest| {
        (approval::key(Kind::File, digest).as_bytes().to_vec(), all_of(digest).to_ne_bytes().to_vec())
    };
    roles.iter().map(|(digest, _)| entry(digest)).collect()
}

fn lookup(map: &MapHandle, name: &'static str, index: u32) -> Result<Vec<u8>, EnforceError> {
    map.lookup(&index.to_ne_bytes(), MapFlags::ANY)
        .map_err(EnforceError::kernel(format!("read the map {name}")))?
        .ok_or(malformed(name, "an entry", &[]))
}

fn malformed(map: &'static str, expected: &'static str, found: &[u8]) -> EnforceError {
    EnforceError::MapContent { map, expected, found: found.len() }
}
