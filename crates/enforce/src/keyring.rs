// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keyring that the kernel checks `user.touchmark` signatures against.
//!
//! It holds the trusted certificates and is sealed once they are in: nobody, root included, can add another. A new set
//! of certificates means a new keyring. It hangs in root's user keyring, so it outlives the process that made it.

use std::ffi::CString;

use touchmark_sign::certificate::Certificate;
use touchmark_sys::keyring::{self, KeySerial, USER_KEYRING};

use crate::EnforceError;

/// Makes a sealed keyring of the certificates. On error nothing is left behind. Each generation has its own name,
/// because a second keyring of the same name would push the one in use out at once.
pub(crate) fn create(certificates: &[Certificate], generation: u32) -> Result<KeySerial, EnforceError> {
    keyring::possess_user_keyring().map_err(EnforceError::io("reach root's keyring in the kernel"))?;
    let name = CString::new(format!("touchmark-{generation}")).unwrap_or_default();
    let serial =
        keyring::create_keyring(&name, USER_KEYRING).map_err(EnforceError::io("create a keyring in the kernel"))?;
    fill(serial, certificates).inspect_err(|_| discard(serial))?;
    Ok(serial)
}

/// Drops a keyring that is no longer used.
pub(crate) fn discard(serial: KeySerial) {
    // Nothing depends on it any more; if root removed it already, that is as good.
    let _ = keyring::unlink(serial, USER_KEYRING);
}

fn fill(serial: KeySerial, certificates: &[Certificate]) -> Result<(), EnforceError> {
    for certificate in certificates {
        keyring::add_certificate(certificate.der(), serial)
            .map_err(EnforceError::io(format!("load the certificate of {} into the kernel", certificate.subject())))?;
    }
    keyring::seal_keyring(serial).map_err(EnforceError::io("seal the keyring"))
}
