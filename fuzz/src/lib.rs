// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the fuzz targets share: a key made at start, small ELF files, and seeds.

pub mod elf;
pub mod identity;
pub mod seeds;
