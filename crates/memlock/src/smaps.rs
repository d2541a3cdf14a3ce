// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/proc/PID/smaps`.
//!
//! Not by the `procfs` crate: it drops the flags that it does not know (`lf`, `gu`), and a mapped file with an odd name
//! such as `/SYSV` makes it panic.

use crate::mapping::{Lock, Mapping};

/// The mappings, in the order of their addresses. A line that is not understood is passed over; the kernel adds fields.
pub(crate) fn parse(text: &[u8]) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        if let Some(mapping) = heading(&line) {
            mappings.push(mapping);
        } else if let (Some(mapping), Some((key, value))) = (mappings.last_mut(), line.split_once(':')) {
            field(mapping, key, value);
        }
    }
    mappings
}

/// `7f0a-7f0b r-xp 00001000 08:01 1234    /usr/lib/x.so`
fn heading(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut next = || {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = after;
        word
    };
    let (start, end) = next().split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let permissions = next();
    let offset = u64::from_str_radix(next(), 16).ok()?;
    let (_device, _inode) = (next(), next());
    (permissions.len() == 4 && start < end).then(|| Mapping {
        start,
        end,
        permissions: permissions.to_owned(),
        offset,
        name: rest.trim_start().to_owned(),
        lock: Lock::None,
        resident: 0,
        huge: 0,
        swapped: 0,
        guarded: false,
        special: false,
    })
}

fn field(mapping: &mut Mapping, key: &str, value: &str) {
    let bytes = || {
        let kib = value.split_ascii_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
        kib.saturating_mul(1024)
    };
    match key {
        "Rss" => mapping.resident = bytes(),
        "Swap" => mapping.swapped = bytes(),
        "AnonHugePages" | "ShmemPmdMapped" | "FilePmdMapped" => mapping.huge = mapping.huge.saturating_add(bytes()),
        "VmFlags" => {
            let has = |flag: &str| value.split_ascii_whitespace().any(|found| found == flag);
            // Where the kernel has no name for the flag of locking on fault it prints `??`; of a locked mapping no
            // other flag is without a name.
            mapping.lock = match (has("lo"), has("lf") || has("??")) {
                (false, _) => Lock::None,
                (true, false) => Lock::Whole,
                (true, true) => Lock::OnFault,
            };
            mapping.guarded = has("gu");
            // Device memory, pages without a `struct page`, and what may not be expanded: the kernel locks none of it.
            mapping.special = ["io", "pf", "de"].into_iter().any(has) || mapping.name == "[vsyscall]";
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
7f00-8f00 rw-p 00001000 08:01 42                         /usr/lib/a b.so (deleted)
Size:                  4 kB
Rss:                   4 kB
AnonHugePages:         2 kB
Swap:                  8 kB
THPeligible:           0
VmFlags: rd wr mr mw me lo lf gu ac
8f00-9f00 ---p 00000000 00:00 0
VmFlags: mr mw me lo
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
VmFlags: ex
";

    #[test]
    fn an_entry_is_read_whole() {
        let mappings = parse(TEXT.as_bytes());
        assert_eq!(mappings.len(), 3);
        let first = &mappings[0];
        assert_eq!((first.start, first.end, first.offset, first.size()), (0x7f00, 0x8f00, 0x1000, 0x1000));
        assert_eq!((first.permissions.as_str(), first.name.as_str()), ("rw-p", "/usr/lib/a b.so (deleted)"));
        assert_eq!((first.resident, first.huge, first.swapped), (4096, 2048, 8192));
        assert!(first.guarded && !first.special && first.lock == Lock::OnFault);
        assert!(mappings[1].is_reserve() && mappings[1].lock == Lock::Whole && mappings[1].name.is_empty());
        assert!(mappings[2].special && mappings[2].lock == Lock::None);
    }

    #[test]
    fn odd_lines_do_no_harm() {
        let odd = [
            &b"Rss: 4 kB\nVmFlags: lo\n"[..],
            b"8f00-7f00 rw-p 0 0 0\n",
            b"1-2 rw-p 0 00:00 0 /SYSV\nRss: 99999999999999999999 kB\nRss:\n:\n\xff\xfe: 1\n",
            b"1-2",
            b"",
        ];
        let found: Vec<_> = odd.into_iter().map(|text| parse(text).len()).collect();
        assert_eq!(found, [0, 0, 1, 0, 0]);
    }

    #[test]
    fn this_process_can_be_read() {
        let text = std::fs::read("/proc/self/smaps").expect("smaps");
        let mappings = parse(&text);
        assert!(mappings.iter().any(|mapping| mapping.name == "[stack]" && mapping.resident > 0));
        assert!(mappings.windows(2).all(|pair| pair[0].end <= pair[1].start));
    }
}
