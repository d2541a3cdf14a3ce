// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that need to look inside; what another process sees is tested in `tests/secret.rs`.

use std::sync::Mutex;

use super::*;

/// Forking, and counting mappings, wants that no other test makes secrets meanwhile.
static ALONE: Mutex<()> = Mutex::new(());

const KINDS: [Kind; 3] = [Kind::Hidden, Kind::Locked, Kind::Unlocked];

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The kinds that this machine offers.
fn kinds() -> impl Iterator<Item = Kind> {
    KINDS.into_iter().filter(|kind| *kind != Kind::Hidden || process::has_secretmem())
}

/// How a child ends that runs `work`: its exit code, or minus the signal. `work` must only make system calls.
fn in_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child only computes, makes system calls and leaves by _exit.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let code = work();
        // SAFETY: leaves at once, without running what others registered.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the status is an int to be filled.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    if libc::WIFSIGNALED(status) { -libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
}

#[test]
fn a_forked_child_does_not_get_it() {
    let _alone = alone();
    for kind in kinds() {
        let secret = Secret::copy_into(kind, b"canary").expect("memory");
        let seen = in_child(|| i32::from(secret.iter().any(|byte| *byte != 0)));
        let expected = if kind == Kind::Hidden { -libc::SIGSEGV } else { 0 };
        assert_eq!(seen, expected, "{kind:?}");
        assert_eq!(&secret[..], b"canary", "{kind:?}: the parent keeps it");
        // Dropping what it inherited must do a child no harm.
        let inherited = Secret::copy_into(kind, b"canary").expect("memory");
        let child = in_child(move || {
            drop(inherited);
            0
        });
        assert_eq!(child, 0, "{kind:?}");
    }
}

#[test]
fn guard_pages_fault_on_both_sides() {
    let _alone = alone();
    for kind in kinds() {
        let region = region::Region::new(kind, 1).expect("memory");
        let (first, length) = (region.start().as_ptr(), region.length());
        for outside in [first.wrapping_sub(1), first.wrapping_add(length)] {
            let ended = in_child(|| {
                // SAFETY: none; the read is meant to end the child.
                i32::from(unsafe { outside.read_volatile() })
            });
            assert_eq!(ended, -libc::SIGSEGV, "{kind:?}");
        }
        let allowed = if kind == Kind::Hidden { -libc::SIGSEGV } else { 0 };
        // SAFETY: the byte is in the region; a child does not have hidden ones.
        assert_eq!(in_child(|| i32::from(unsafe { first.read_volatile() })), allowed, "{kind:?}");
    }
}

#[test]
fn slots_are_used_again_and_wiped() {
    let _alone = alone();
    for kind in kinds() {
        let keeper = Secret::copy_into(kind, b"keeps the region").expect("memory");
        let address = {
            let secret = Secret::copy_into(kind, &[0xaa; 200]).expect("memory");
            secret.as_ptr()
        };
        let again = Secret { slot: pool::Slot::take(kind, 200).expect("memory"), length: 200 };
        assert_eq!(again.as_ptr(), address, "{kind:?}: the same slot");
        assert_eq!(&again[..], [0; 200], "{kind:?}: wiped");
        assert_eq!(&keeper[..], b"keeps the region");
    }
}

#[test]
fn many_secrets_make_few_mappings_and_leave_none_hidden() {
    let _alone = alone();
    for kind in kinds() {
        let before = pool::regions();
        let many: Vec<_> = (0..64_u8).map(|n| Secret::copy_into(kind, &[n; 100]).expect("memory")).collect();
        assert!(many.iter().zip(0..).all(|(secret, n)| secret[..] == [n; 100]), "{kind:?}");
        assert!(pool::regions() - before <= 4, "{kind:?}: {} regions for 64 secrets", pool::regions() - before);
        drop(many);
        assert!(pool::regions() - before <= usize::from(kind != Kind::Hidden), "{kind:?}: {}", pool::regions());
    }
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    assert!(!maps.contains("secretmem"), "nothing keeps the machine from hibernating: {maps}");
}

#[test]
fn memory_is_locked_and_left_out_of_dumps() {
    let _alone = alone();
    for kind in kinds() {
        let secret = Secret::copy_into(kind, b"canary").expect("memory");
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
        let flags = flags_at(&smaps, secret.as_ptr() as usize);
        let has = |flag: &str| flags.split_whitespace().any(|found| found == flag);
        assert!(has("dd"), "{kind:?}: {flags}");
        assert_eq!(has("lo"), kind != Kind::Unlocked, "{kind:?}: {flags}");
        assert!(has(if kind == Kind::Hidden { "dc" } else { "wf" }), "{kind:?}: {flags}");
    }
}

#[test]
fn reading_grows_and_stops_at_the_most() {
    let _alone = alone();
    let bytes: Vec<u8> = (0..=255).cycle().take(20_000).collect();
    let mut secret = Secret::read_from(&bytes[..], 20_000).expect("read");
    assert_eq!(&secret[..], &bytes[..]);
    secret.truncate(3);
    assert_eq!(&secret[..], [0, 1, 2]);
    assert!(secret.room()[3..].iter().all(|byte| *byte == 0));
    assert!(matches!(Secret::read_from(&bytes[..], 19_999), Err(SecretError::TooLong { most: 19_999 })));
    assert_eq!(format!("{secret:?}"), "Secret(3 bytes)");
    assert!(Secret::copy_of(b"").expect("empty").is_empty());
}

#[test]
fn the_limit_is_named() {
    let _alone = alone();
    // The limit of a child is lowered, and its right to exceed it dropped.
    let code = in_child(|| {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the argument is a `struct rlimit` to read.
        unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const none) };
        // SAFETY: the calls take numbers.
        unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        match region::Region::new(Kind::Locked, 4096) {
            Err(SecretError::Limit { wanted: 4096, limit: 0, .. }) => 0,
            Err(_) => 1,
            Ok(_) => 2,
        }
    });
    assert_eq!(code, 0);
    let text = SecretError::Limit { wanted: 4096, limit: 0, used: 0 }.to_string();
    assert!(text.contains("RLIMIT_MEMLOCK") && text.contains("LimitMEMLOCK="), "{text}");
}

#[test]
fn policies_have_words() {
    for policy in Policy::ALL {
        assert_eq!(policy.word().parse(), Ok(policy));
    }
    assert!("swap".parse::<Policy>().is_err());
}

/// The `VmFlags` of the mapping that holds an address.
fn flags_at(smaps: &str, address: usize) -> &str {
    let mut here = false;
    for line in smaps.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let parse = |hex| usize::from_str_radix(hex, 16).ok();
        if let Some((Some(start), Some(end))) = range.map(|(start, end)| (parse(start), parse(end))) {
            here = (start..end).contains(&address);
        } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| here) {
            return flags;
        }
    }
    panic!("no mapping holds the address")
}
