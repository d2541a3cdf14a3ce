// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What may run, decided in the kernel.
//!
//! The BPF LSM programs under `bpf/` make every decision; this crate loads and pins them ([`Enforcement`]), gives them
//! their policy ([`Policy`]), reads their events ([`EventReader`]) and feeds them digests that only user space can vouch
//! for ([`admission`]). [`probe`] tells what a kernel offers.

mod abi;
pub mod admission;
mod approval;
mod btf;
mod counters;
mod enforcement;
mod error;
mod events;
mod fdinfo;
mod filesystems;
mod guard;
mod keyring;
mod object;
mod pins;
mod policy;
pub mod probe;
mod scope;
mod table;
mod usage;

pub use abi::{Action, Hook, Mode, Reason, Role, Treatment};
pub use approval::{Approval, Revocations, Revoked};
pub use counters::Counters;
pub use enforcement::{Change, Enforcement, TrustChange};
pub use error::EnforceError;
pub use events::{Event, EventReader};
pub use filesystems::FileSystemRule;
pub use policy::Policy;
pub use scope::Scope;
pub use usage::Usage;
