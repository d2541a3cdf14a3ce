// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which file systems and devices can change behind the kernel's hooks.
//!
//! A file system that is not named here keeps verdicts if it needs a block device; otherwise the policy's word for the
//! others counts (`bpf/filesystem.h`).

use crate::abi::Treatment;

/// A file system by name, as the command line takes it.
struct Known {
    name: &'static str,
    /// uapi/linux/magic.h and the file systems' own sources; or [`BY_MAJOR`] and a device's major number.
    key: u64,
    treatment: Treatment,
}

const fn known(name: &'static str, key: u64, treatment: Treatment) -> Known {
    Known { name, key, treatment }
}

/// `TM_FS_BY_MAJOR`.
const BY_MAJOR: u64 = 1 << 32;

const KNOWN: &[Known] = &[
    // In memory, or with devices of their own: all changes pass the hooks.
    known("tmpfs", 0x0102_1994, Treatment::Cache),
    known("ramfs", 0x8584_58f6, Treatment::Cache),
    known("hugetlbfs", 0x9584_58f6, Treatment::Cache),
    known("zfs", 0x2fc1_2fc1, Treatment::Cache),
    known("bcachefs", 0xca45_1a4e, Treatment::Cache),
    known("ubifs", 0x2405_1905, Treatment::Cache),
    known("jffs2", 0x72b6, Treatment::Cache),
    known("erofs", 0xe0f5_e1e2, Treatment::Cache),
    // Its server is a process of this machine, anybody's: it can show the hash one content and the mapping another.
    known("fuse", 0x6573_5546, Treatment::Deny),
    // Another machine may write, or a server may lie.
    known("nfs", 0x6969, Treatment::Hash),
    known("cifs", 0xff53_4d42, Treatment::Hash),
    known("smb2", 0xfe53_4d42, Treatment::Hash),
    known("smb", 0x517b, Treatment::Hash),
    known("9p", 0x0102_1997, Treatment::Hash),
    known("ceph", 0x00c3_6400, Treatment::Hash),
    known("afs", 0x5346_414f, Treatment::Hash),
    known("kafs", 0x6b41_4653, Treatment::Hash),
    known("coda", 0x7375_7245, Treatment::Hash),
    known("lustre", 0x0bd0_0bd0, Treatment::Hash),
    known("gpfs", 0x4750_4653, Treatment::Hash),
    known("beegfs", 0x1983_0326, Treatment::Hash),
    known("vboxsf", 0x786f_4256, Treatment::Hash),
    // On a device that other machines mount, too.
    known("gfs2", 0x0116_1970, Treatment::Hash),
    known("ocfs2", 0x7461_636f, Treatment::Hash),
    // A layer may be written below it.
    known("overlay", 0x794c_7630, Treatment::Hash),
    known("ecryptfs", 0xf15f, Treatment::Hash),
    // Devices, whatever lies on them: an image file is root's to write, as the disks are; a server is not.
    known("loop", BY_MAJOR | 7, Treatment::Cache),
    known("nbd", BY_MAJOR | 43, Treatment::Hash),
];

/// How one file system is to be treated, as `NAME=cache|hash|deny`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemRule {
    key: u64,
    treatment: Treatment,
}

impl std::str::FromStr for FileSystemRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, treatment) =
            text.split_once('=').ok_or_else(|| format!("expected NAME=cache|hash|deny, found `{text}`"))?;
        Ok(Self { key: key(name)?, treatment: treatment.parse()? })
    }
}

/// A name of the table, or a magic number in hexadecimal.
fn key(name: &str) -> Result<u64, String> {
    if let Some(known) = KNOWN.iter().find(|known| known.name == name) {
        return Ok(known.key);
    }
    let number = name.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.ok_or_else(|| {
        let names: Vec<_> = KNOWN.iter().map(|known| known.name).collect();
        format!("expected a file system of {}, or its magic number as 0x..., found `{name}`", names.join(", "))
    })
}

/// The content of the map `filesystems`. `refuse`: what would be hashed at every use is denied instead; a rule counts
/// more than that.
pub(crate) fn table(rules: &[FileSystemRule], refuse: bool) -> Vec<(u64, Treatment)> {
    let of_table = KNOWN.iter().map(|known| match known.treatment {
        Treatment::Hash if refuse => (known.key, Treatment::Deny),
        treatment => (known.key, treatment),
    });
    // Later entries replace earlier ones when they are written.
    of_table.chain(rules.iter().map(|rule| (rule.key, rule.treatment))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_by_name_or_number() {
        let rule = |text: &str| text.parse::<FileSystemRule>();
        assert_eq!(rule("nfs=deny"), Ok(FileSystemRule { key: 0x6969, treatment: Treatment::Deny }));
        assert_eq!(rule("0x1234=hash"), Ok(FileSystemRule { key: 0x1234, treatment: Treatment::Hash }));
        for wrong in ["nfs", "nfs=", "nfs=never", "unheard=deny", "0xzz=deny", "=deny"] {
            assert!(rule(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rule_counts_more_than_the_refusal_of_all() {
        let table = table(&["nfs=hash".parse().expect("known")], true);
        let last = |key| table.iter().rfind(|(found, _)| *found == key).map(|(_, treatment)| *treatment);
        assert_eq!(last(0x6969), Some(Treatment::Hash));
        assert_eq!(last(0x794c_7630), Some(Treatment::Deny));
        assert_eq!(last(0x0102_1994), Some(Treatment::Cache));
    }

    #[test]
    fn what_any_process_can_serve_is_refused_unless_it_is_named() {
        const FUSE: u64 = 0x6573_5546;
        let last = |rules: &[FileSystemRule]| {
            table(rules, false).iter().rfind(|(found, _)| *found == FUSE).map(|(_, treatment)| *treatment)
        };
        assert_eq!(last(&[]), Some(Treatment::Deny));
        assert_eq!(last(&["fuse=hash".parse().expect("known")]), Some(Treatment::Hash));
    }

    #[test]
    fn no_key_is_named_twice() {
        let mut numbers: Vec<_> = KNOWN.iter().map(|known| known.key).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), KNOWN.len());
    }
}
