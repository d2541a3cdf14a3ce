// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capabilities that count for the whole machine (`capabilities(7)`), as `/proc` shows them.

use std::sync::OnceLock;

/// To exceed RLIMIT_MEMLOCK.
pub const IPC_LOCK: u32 = 14;
/// To trace any process, and to let a traced one gain privileges at exec.
pub const SYS_PTRACE: u32 = 19;
/// To filter system calls without giving up privileges.
pub const SYS_ADMIN: u32 = 21;
/// To raise hard limits.
pub const SYS_RESOURCE: u32 = 24;

/// Whether this process had the capability when it was first asked, and that in the machine's first user namespace: in
/// another, as in rootless containers, it is shown but does not count for memory and limits.
#[must_use]
pub fn has(number: u32) -> bool {
    /// Each file costs a start some 50 microseconds, and nothing of ours changes its capabilities.
    static EFFECTIVE: OnceLock<u64> = OnceLock::new();
    let read = || {
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let first_namespace = map.split_whitespace().eq(["0", "0", "4294967295"]);
        let effective = status("CapEff:").and_then(|hex| u64::from_str_radix(&hex, 16).ok());
        effective.filter(|_| first_namespace).unwrap_or(0)
    };
    EFFECTIVE.get_or_init(read) & (1 << number) != 0
}

/// Whether exec can give this process no privileges (`PR_SET_NO_NEW_PRIVS`).
#[must_use]
pub fn no_new_privileges() -> bool {
    status("NoNewPrivs:").as_deref() == Some("1")
}

fn status(key: &str) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_shows_is_read() {
        assert!(status("CapEff:").is_some_and(|hex| u64::from_str_radix(&hex, 16).is_ok()));
        assert!(status("NoNewPrivs:").is_some());
        assert!(!has(63), "there is no such capability");
    }
}
