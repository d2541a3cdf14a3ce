// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a target starts from: written to its corpus folder when that is empty, so the tree holds no keys and no binaries.

use std::path::PathBuf;
use std::{env, fs};

/// Fills the folder that libFuzzer was told to keep its corpus in, if it is there and empty. Call it before libFuzzer
/// reads the folder (`init` of `fuzz_target!`).
pub fn plant(seeds: impl FnOnce() -> Vec<Vec<u8>>) {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument.starts_with("-merge") || argument.starts_with("-minimize")) {
        return;
    }
    let Some(folder) = arguments.iter().find(|argument| !argument.starts_with('-')).map(PathBuf::from) else { return };
    let is_empty = fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_none());
    if !is_empty {
        return;
    }
    for (index, seed) in seeds().iter().enumerate() {
        let file = folder.join(format!("seed-{index}"));
        fs::write(&file, seed).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}
