// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy as people state it, and as the kernel reads it.

use std::time::Duration;

use crate::EnforceError;
use crate::abi::{ABI_VERSION, FLAG_ALLOW_UNCACHEABLE, FLAG_LOG_ALLOWED, Mode, RawPolicy};
use crate::scope::Scope;

/// What is checked, and what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What a decision to deny does.
    pub mode: Mode,
    /// Whose executions are checked.
    pub scope: Scope,
    /// Whether files on file systems that can change unseen (network, FUSE, overlay) may run, hashed at every use.
    pub allow_uncacheable: bool,
    /// Whether what was allowed after a check is reported too.
    pub log_allowed: bool,
    /// Enforce only this long, then be permissive: the way back from a policy that locks its owner out.
    pub trial: Option<Duration>,
}

impl Policy {
    /// The policy in the kernel's terms. `generation` must differ from the last one, so that old verdicts fall.
    pub(crate) fn to_raw(&self, generation: u32, keyring: i32) -> Result<RawPolicy, EnforceError> {
        let scope = self.scope.resolve()?;
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        Ok(RawPolicy {
            abi_version: ABI_VERSION,
            generation,
            mode: self.mode as u8,
            scope: scope.kind,
            cgroup_level: scope.cgroup_level,
            flags: flag(self.allow_uncacheable, FLAG_ALLOW_UNCACHEABLE) | flag(self.log_allowed, FLAG_LOG_ALLOWED),
            scope_id: scope.id,
            enforce_until_ns: self.trial.map_or(0, |trial| boot_time_ns().saturating_add(nanoseconds(trial))),
            keyring,
            reserved: 0,
        })
    }
}

/// The next generation; 0 is never used, because fresh inode storage holds 0.
pub(crate) fn next_generation(generation: u32) -> u32 {
    generation.wrapping_add(1).max(1)
}

/// Now, in nanoseconds of `CLOCK_BOOTTIME`, as `bpf_ktime_get_boot_ns()` counts them.
pub(crate) fn boot_time_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(trial: Option<Duration>) -> RawPolicy {
        let policy =
            Policy { mode: Mode::Enforce, scope: Scope::All, allow_uncacheable: true, log_allowed: false, trial };
        policy.to_raw(7, 42).expect("the whole machine always resolves")
    }

    #[test]
    fn a_trial_ends_in_the_future_and_no_trial_never() {
        let before = boot_time_ns();
        let until = policy(Some(Duration::from_secs(60))).enforce_until_ns;
        assert!(until >= before + 60_000_000_000);
        assert_eq!(policy(None).enforce_until_ns, 0);
        assert_eq!(policy(Some(Duration::MAX)).enforce_until_ns, u64::MAX);
    }

    #[test]
    fn generations_skip_zero() {
        assert_eq!(next_generation(0), 1);
        assert_eq!(next_generation(u32::MAX), 1);
    }
}
