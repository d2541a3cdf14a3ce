// SPDX-License-Identifier: Apache-2.0 OR MIT
//! File systems that show the kernel's state and hold no files of anyone's.

use std::io;
use std::os::fd::AsFd;

/// Magic numbers of `statfs` (linux/magic.h) and names.
const PSEUDO: &[(u64, &str)] = &[
    (0x0000_9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x0000_1cd1, "devpts"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0xcafe_4a11, "bpf"),
    (0x6265_6570, "configfs"),
    (0x6165_676c, "pstore"),
    (0xde5e_81e4, "efivarfs"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4341_5d53, "smackfs"),
    (0x1980_0202, "mqueue"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x6573_5543, "fusectl"),
    (0x6759_6969, "rpc_pipefs"),
    (0x6e73_6673, "nsfs"),
    (0x0000_0187, "autofs"),
];

/// The file system's name if it is one of them.
pub(super) fn name(file: impl AsFd) -> io::Result<Option<&'static str>> {
    let kind = rustix::fs::fstatfs(file)?.f_type;
    // The field's type differs between architectures; the numbers are 32 bits wide.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "only the low 32 bits count")]
    let kind = u64::from(kind as u32);
    Ok(PSEUDO.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn proc_is_one_and_a_temporary_directory_is_none() {
        assert_eq!(name(File::open("/proc").unwrap()).unwrap(), Some("proc"));
        assert_eq!(name(File::open(std::env::temp_dir()).unwrap()).unwrap(), None);
    }
}
