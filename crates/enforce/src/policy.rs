// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy as people state it, and as the kernel reads it.

use std::time::Duration;

use touchmark_sign::digest::Digest;

use crate::EnforceError;
use crate::abi::{ABI_VERSION, Action, Mode, RawPolicy, Role, Treatment, flag};
use crate::filesystems::FileSystemRule;
use crate::scope::Scope;

/// What is checked, and what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What a decision to deny does.
    pub mode: Mode,
    /// Whose executions are checked.
    pub scope: Scope,
    /// Enforce only this long, then be permissive: the way back from a policy that locks its owner out.
    pub trial: Option<Duration>,
    /// Whether what was allowed after a check is reported too.
    pub log_allowed: bool,
    /// Whether what is open for writing, or mapped shared and writable, is refused.
    pub refuse_writable: bool,
    /// Whether opening for writing what is mapped executable is refused.
    pub protect_mapped: bool,
    /// Whether pins, maps, programs and daemon are Touchmark's own to change.
    pub guard: bool,
    /// Whether only a signed order weakens the policy. The kernel keeps the flag; user space honours it.
    pub lock: bool,
    /// Executable memory that is no file's content.
    pub anonymous: Action,
    /// Tracing and writing into other processes.
    pub ptrace: Action,
    /// Modules, firmware and kexec images that come from memory instead of a file.
    pub kernel_buffers: Action,
    /// Refuse what is on file systems that can change unseen (network, overlay), instead of hashing it at every use.
    pub refuse_uncacheable: bool,
    /// Exceptions by file system.
    pub file_systems: Vec<FileSystemRule>,
    /// What single programs may do, or may not, by the SHA-256 of their file.
    pub roles: Vec<(Digest, Role)>,
}

/// What a policy is completed with when it is put in force.
pub(crate) struct Completion {
    /// Must differ from the last one, so that old verdicts fall.
    pub(crate) generation: u32,
    pub(crate) keyring: i32,
    pub(crate) revocations: u64,
    /// SHA-256 of the state file.
    pub(crate) state: [u8; 32],
}

impl Policy {
    /// The policy in the kernel's terms.
    pub(crate) fn to_raw(&self, completion: &Completion) -> Result<RawPolicy, EnforceError> {
        let scope = self.scope.resolve()?;
        let others = if self.refuse_uncacheable { Treatment::Deny } else { Treatment::Hash };
        Ok(RawPolicy {
            abi_version: ABI_VERSION,
            generation: completion.generation,
            mode: self.mode as u8,
            scope: scope.kind,
            cgroup_level: scope.cgroup_level,
            flags: self.flags(),
            scope_id: scope.id,
            enforce_until_ns: self.trial.map_or(0, |trial| boot_time_ns().saturating_add(nanoseconds(trial))),
            keyring: completion.keyring,
            anonymous: self.anonymous as u8,
            ptrace: self.ptrace as u8,
            buffers: self.kernel_buffers as u8,
            filesystems: others as u8,
            revocations: completion.revocations,
            state: completion.state,
        })
    }

    fn flags(&self) -> u32 {
        let switches = [
            (self.log_allowed, flag::LOG_ALLOWED),
            (self.refuse_writable, flag::REFUSE_WRITABLE),
            (self.protect_mapped, flag::PROTECT_MAPPED),
            (self.guard, flag::GUARD),
            (self.lock, flag::LOCK),
        ];
        switches.iter().filter(|(set, _)| *set).fold(0, |flags, (_, flag)| flags | flag)
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
        let policy = Policy {
            mode: Mode::Enforce,
            scope: Scope::All,
            trial,
            log_allowed: false,
            refuse_writable: true,
            protect_mapped: true,
            guard: true,
            lock: false,
            anonymous: Action::Deny,
            ptrace: Action::Log,
            kernel_buffers: Action::Allow,
            refuse_uncacheable: false,
            file_systems: Vec::new(),
            roles: Vec::new(),
        };
        let completion = Completion { generation: 7, keyring: 42, revocations: 3, state: [9; 32] };
        policy.to_raw(&completion).expect("the whole machine always resolves")
    }

    #[test]
    fn switches_become_flags() {
        let raw = policy(None);
        assert_eq!(raw.flags, flag::REFUSE_WRITABLE | flag::PROTECT_MAPPED | flag::GUARD);
        assert_eq!((raw.anonymous, raw.ptrace, raw.buffers), (2, 1, 0));
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
