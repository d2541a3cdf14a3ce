// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boots stock Debian kernels in QEMU, on a real Debian file tree, and runs trials or scripts inside.
//!
//! ```text
//! Kernel::fetch ----------------------------+
//! Tree::fetch ---+--> Image::build ---------+--> Machine::boot --> events: trials' results, a script's output
//! Programs::build +--> the guest program ---+
//! ```
//!
//! The host's side is this library; the side within the machine is the binary `touchmark-vm-guest` (`src/guest`).
//! Everything is fetched from Debian by [`apt`] and kept in the [`cache`]; a second run needs no network.

pub mod apt;
pub mod cache;
pub mod command;
pub mod cpio;
pub mod libraries;
pub mod mirror;
pub mod modules;
pub mod protocol;

mod accel;
mod image;
mod initramfs;
mod keeper;
mod kernel;
mod machine;
mod programs;
mod session;
mod source;
mod tree;

pub use accel::Accel;
pub use image::{Contents, Image};
pub use kernel::{Kernel, Series};
pub use machine::{Machine, Options, shell};
pub use programs::Programs;
pub use session::{Finished, run_script, run_trials};
pub use source::source;
pub use tree::Tree;
