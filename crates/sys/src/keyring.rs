// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's key retention service (`keyrings(7)`): a keyring of X.509 certificates for signature checks in the kernel.

use std::ffi::CStr;
use std::io;

/// The serial number by which the kernel knows a key or keyring; positive, or one of the special negative ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySerial(pub i32);

/// The calling user's own keyring (`user-keyring(7)`). It outlives the process; for root it is never freed.
pub const USER_KEYRING: KeySerial = KeySerial(libc::KEY_SPEC_USER_KEYRING);

/// The calling process' own keyring, gone with it (`process-keyring(7)`).
const PROCESS_KEYRING: KeySerial = KeySerial(libc::KEY_SPEC_PROCESS_KEYRING);

/// Gives this process the rights of a possessor over what is in the user's keyring. A service of systemd has a session
/// keyring without it, and could not even fill a keyring that it made there.
///
/// # Errors
/// What `keyctl` reports.
pub fn possess_user_keyring() -> io::Result<()> {
    keyctl(libc::KEYCTL_LINK, USER_KEYRING, i64::from(PROCESS_KEYRING.0)).map(drop)
}

/// Creates an empty keyring called `name` and links it to `parent` (`add_key(2)`). A keyring of that name in `parent`
/// loses its link, and is destroyed if that was the last.
///
/// # Errors
/// What `add_key` reports, for example `EDQUOT` when the user's key quota is used up.
pub fn create_keyring(name: &CStr, parent: KeySerial) -> io::Result<KeySerial> {
    add_key(c"keyring", name, &[], parent)
}

/// Adds an X.509 certificate in DER to `keyring`; the kernel parses it (`asymmetric` key type).
///
/// # Errors
/// `EBADMSG` for what is no certificate, `ENOPKG` when the kernel lacks the algorithm, and what else `add_key` reports.
pub fn add_certificate(der: &[u8], keyring: KeySerial) -> io::Result<KeySerial> {
    // An empty description makes the kernel derive one from the certificate's subject.
    add_key(c"asymmetric", c"", der, keyring)
}

/// Forbids any further link to `keyring`, for good (`keyctl_restrict_keyring(3)` without a type).
///
/// # Errors
/// What `keyctl` reports.
pub fn seal_keyring(keyring: KeySerial) -> io::Result<()> {
    keyctl(libc::KEYCTL_RESTRICT_KEYRING, keyring, 0).map(drop)
}

/// Removes the link from `parent` to `key`; without other links the key is destroyed (`keyctl_unlink(3)`).
///
/// # Errors
/// What `keyctl` reports, `ENOENT` when there is no such link.
pub fn unlink(key: KeySerial, parent: KeySerial) -> io::Result<()> {
    keyctl(libc::KEYCTL_UNLINK, key, i64::from(parent.0)).map(drop)
}

fn add_key(kind: &CStr, description: &CStr, payload: &[u8], keyring: KeySerial) -> io::Result<KeySerial> {
    let data = if payload.is_empty() { std::ptr::null() } else { payload.as_ptr() };
    // SAFETY: both strings end in NUL and `data` is readable for `payload.len()` bytes; all outlive the call.
    let result = unsafe {
        libc::syscall(libc::SYS_add_key, kind.as_ptr(), description.as_ptr(), data, payload.len(), keyring.0)
    };
    serial(result)
}

fn keyctl(operation: u32, key: KeySerial, argument: i64) -> io::Result<KeySerial> {
    // SAFETY: the operations used here take numbers, or a null pointer in place of their strings.
    let result = unsafe { libc::syscall(libc::SYS_keyctl, operation, key.0, argument, 0) };
    serial(result)
}

fn serial(result: libc::c_long) -> io::Result<KeySerial> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(result)
        .map(KeySerial)
        .map_err(|_| io::Error::other(format!("expected a key serial of 32 bits, found {result}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the kernel, or a container's seccomp filter, keeps key calls away, there is nothing to test.
    fn keyring(name: &CStr) -> Option<KeySerial> {
        create_keyring(name, USER_KEYRING).ok()
    }

    #[test]
    fn a_sealed_keyring_takes_no_more_keys() {
        let Some(ring) = keyring(c"touchmark-test-sealed") else {
            eprintln!("no key retention service here");
            return;
        };
        let inner = create_keyring(c"before", ring).expect("a fresh keyring takes keys");
        assert!(inner.0 > 0);
        seal_keyring(ring).expect("restrict");
        let refused = create_keyring(c"after", ring).expect_err("a sealed keyring must refuse");
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
        unlink(ring, USER_KEYRING).expect("unlink");
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        let Some(ring) = keyring(c"touchmark-test-refused") else { return };
        assert!(add_certificate(b"not a certificate", ring).is_err());
        unlink(ring, USER_KEYRING).expect("unlink");
    }
}
