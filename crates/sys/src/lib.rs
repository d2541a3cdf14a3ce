// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Linux system calls that no maintained crate wraps safely.
//!
//! The only crate of the workspace with `unsafe` code. Every function here is safe to call; each `unsafe` block says why it is sound.

pub mod capability;
pub mod fsverity;
pub mod huge;
pub mod keyring;
pub mod launch;
pub mod mapping;
#[cfg(target_arch = "x86_64")]
pub mod seccomp;
pub mod secret;
#[cfg(target_arch = "x86_64")]
pub mod trace;
pub mod usage;
