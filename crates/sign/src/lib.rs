// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signed statements and their containers: bytes in, bytes out, no I/O.
//!
//! A [`statement`] says what a digest is of; [`cms`] signs it and checks the signature against trusted [`certificate`]s;
//! [`elf`] carries a signature inside a program; [`revocation`] takes back what was signed. Formats: `docs/formats.md`.

pub mod certificate;
pub mod cms;
pub mod digest;
pub mod elf;
mod encryption;
pub mod key;
mod pem;
pub mod revocation;
pub mod statement;
pub mod verify;
