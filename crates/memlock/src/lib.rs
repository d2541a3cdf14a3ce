// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory locking (`mlock(2)`): what a process has locked, in numbers and pictures, and how to lock a program that was
//! not written for it.

pub mod advise;
mod changes;
mod find;
mod mapping;
mod picture;
pub mod run;
mod smaps;
mod snapshot;
mod summary;

pub use changes::{Change, changes};
pub use find::find;
pub use mapping::{Lock, Mapping};
pub use picture::{LEGEND, draw};
pub use snapshot::{Limits, Snapshot, StatusError};
pub use summary::{Summary, size};
