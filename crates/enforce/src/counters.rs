// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel counted since the programs were loaded.

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use zerocopy::FromBytes;

use crate::EnforceError;
use crate::abi::{Reason, counter};

/// All CPUs together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Decisions by reason; [`Reason::Cached`] is the hits.
    pub decisions: Vec<(Reason, u64)>,
    /// Files hashed.
    pub hashes: u64,
    /// fs-verity digests taken instead of hashing.
    pub sealed: u64,
    /// Verdicts dropped, by what made them fall. Those that went with their inode are not counted: no hook tells.
    pub dropped: Vec<(&'static str, u64)>,
    /// Events lost because nobody read them in time.
    pub events_lost: u64,
    /// Decisions to deny that permissive mode, or the policy for that reason, let through.
    pub permitted: u64,
}

const DROPPED: [(&str, u32); 4] = [
    ("opened-for-writing", counter::DROPPED_OPEN),
    ("truncated", counter::DROPPED_TRUNCATE),
    ("signature-changed", counter::DROPPED_XATTR),
    ("new-policy", counter::DROPPED_POLICY),
];

impl Counters {
    pub(crate) fn read(map: &MapHandle) -> Result<Self, EnforceError> {
        let decisions = Reason::ALL.iter().map(|reason| Ok((*reason, one(map, u32::from(*reason as u8))?)));
        let dropped = DROPPED.iter().map(|(name, index)| Ok((*name, one(map, *index)?)));
        Ok(Self {
            decisions: decisions.collect::<Result<_, EnforceError>>()?,
            hashes: one(map, counter::HASHES)?,
            sealed: one(map, counter::SEALED)?,
            dropped: dropped.collect::<Result<_, EnforceError>>()?,
            events_lost: one(map, counter::EVENTS_LOST)?,
            permitted: one(map, counter::PERMITTED)?,
        })
    }
}

fn one(map: &MapHandle, index: u32) -> Result<u64, EnforceError> {
    let per_cpu = map
        .lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY)
        .map_err(EnforceError::kernel("read the counters"))?
        .unwrap_or_default();
    Ok(per_cpu.iter().filter_map(|value| u64::read_from_bytes(value).ok()).sum())
}
