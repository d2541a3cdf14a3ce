// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the running kernel has for BPF programs, by its own description of types (BTF). It is some megabytes to read,
//! so it is read once.

use std::sync::OnceLock;

use libbpf_rs::btf::{Btf, types};

/// The kernel functions that signatures in xattrs and fs-verity digests take.
const SIGNATURE_KFUNCS: &[&str] = &[
    "bpf_get_file_xattr",
    "bpf_dynptr_adjust",
    "bpf_verify_pkcs7_signature",
    "bpf_lookup_user_key",
    "bpf_key_put",
    "bpf_get_fsverity_digest",
];
/// Those that sleepable programs need to follow a task's pointers; without them (before 6.2) they may just do so.
const RCU_KFUNCS: &[&str] = &["bpf_rcu_read_lock", "bpf_rcu_read_unlock", "bpf_task_from_pid", "bpf_task_release"];

/// What was found.
pub(crate) struct Known {
    /// Functions that signatures in xattrs need and the kernel lacks.
    pub(crate) missing_for_signatures: Vec<&'static str>,
    /// Whether sleepable programs must, and can, mark RCU sections.
    pub(crate) rcu: bool,
    /// Whether interpreters can ask about a script (`AT_EXECVE_CHECK`, 6.14).
    pub(crate) checks_scripts: bool,
    /// The numbers of the hooks that say who gets a descriptor of a map, and of a program; 0: it has none.
    pub(crate) map_hook: u32,
    pub(crate) program_hook: u32,
}

/// `None` if the kernel does not describe itself.
pub(crate) fn known() -> Option<&'static Known> {
    static KNOWN: OnceLock<Option<Known>> = OnceLock::new();
    KNOWN.get_or_init(look).as_ref()
}

fn look() -> Option<Known> {
    let btf = Btf::from_vmlinux().ok()?;
    let is_missing = |name: &&&str| btf.type_by_name::<types::Func<'_>>(name).is_none();
    let number = |name| btf.type_by_name::<types::Func<'_>>(name).map_or(0, |function| function.type_id().into());
    let program = btf.type_by_name::<types::Struct<'_>>("linux_binprm");
    Some(Known {
        missing_for_signatures: SIGNATURE_KFUNCS.iter().filter(is_missing).copied().collect(),
        rcu: !RCU_KFUNCS.iter().any(|name| is_missing(&name)),
        checks_scripts: program
            .is_some_and(|fields| fields.iter().any(|field| field.name.is_some_and(|name| name == "is_check"))),
        map_hook: number("bpf_lsm_bpf_map"),
        program_hook: number("bpf_lsm_bpf_prog"),
    })
}
