// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boots stock Debian kernels in QEMU, on a real Debian file tree, and runs trials or scripts inside.
//!
//! ```text
//! Kernel::fetch --+
//! Tree::fetch ----+--> Image::build --> Machine::boot --> events: results of trials, output of scripts
//! Guest::build ---+
//! ```
//!
//! The host side is this library; the side within the machine is the binary `touchmark-vm-guest` (`src/guest`).
//! Everything is fetched from Debian by [`apt`] and kept in the [`cache`]; a second run needs no network.

pub mod apt;
pub mod cache;
pub mod command;
pub mod mirror;
pub mod modules;

mod kernel;
mod tree;

pub use kernel::{Kernel, Series};
pub use tree::Tree;
