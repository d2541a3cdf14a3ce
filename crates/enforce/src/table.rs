// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A map whose content is given as a whole.

use std::collections::HashSet;

use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};

use crate::EnforceError;

/// Makes the map hold just these entries; a later one of the same key counts. What is new is written before what is
/// old goes, so that nothing that stays is missing in between.
pub(crate) fn replace(map: &MapHandle, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), EnforceError> {
    let name = || map.name().to_string_lossy().into_owned();
    for (key, value) in entries {
        map.update(key, value, MapFlags::ANY).map_err(EnforceError::kernel(format!("write the map {}", name())))?;
    }
    let wanted: HashSet<_> = entries.iter().map(|(key, _)| key.as_slice()).collect();
    remove(map, |key| !wanted.contains(key))
}

/// Removes the entries whose key is `unwanted`.
pub(crate) fn remove(map: &MapHandle, unwanted: impl Fn(&[u8]) -> bool) -> Result<(), EnforceError> {
    for key in map.keys().filter(|key| unwanted(key)).collect::<Vec<_>>() {
        match map.delete(&key) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            other => {
                other.map_err(EnforceError::kernel(format!("clean the map {}", map.name().to_string_lossy())))?;
            }
        }
    }
    Ok(())
}
