// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine that the figures are from.

use std::fs;

/// Processor, number of processors, kernel: one line.
pub(crate) fn describe() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    let sha = if processors.contains(" sha_ni") { "with SHA extensions" } else { "without SHA extensions" };
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model} {sha}, {count} processors, Linux {}", release.trim())
}
