// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs and code from a file system that the attacker serves (programs/fuse.c).

use std::fs;
use std::io;

use crate::arena::{Arena, code_bytes};
use crate::exec::own_namespace;
use crate::{Outcome, Rule, Technique};

const REFUSED: &[&str] = &["untrusted-filesystem"];
/// A policy that trusts such file systems as far as their content can be checked.
const HASHED: &[&str] = &["--file-system", "fuse=hash"];

const fn served(name: &'static str, about: &'static str, attempt: fn(&Arena) -> io::Result<()>) -> Technique {
    Technique::new(name, about, with_both_codes, attempt, REFUSED).rule(Rule::Processes).module("fuse")
}

pub(crate) const PROGRAM: Technique = served("fuse_program", "Start it from a FUSE file system of one's own", program);
pub(crate) const CHANGES: Technique =
    served("fuse_changes", "Serve approved code by FUSE, and other code once it was read", changes);
pub(crate) const PROGRAM_HASHED: Technique = Technique {
    outcome: Outcome::Stopped(crate::technique::NOT_PERMITTED, &["unsigned"]),
    ..served("fuse_program_hashed", "Start it from there, where the policy says `--file-system fuse=hash`", program)
}
.policy(HASHED);
pub(crate) const CHANGES_HASHED: Technique = served(
    "fuse_changes_hashed",
    "Serve other code once it was read, where the policy says `--file-system fuse=hash`",
    changes,
)
.policy(HASHED)
.outcome(Outcome::NotStopped(
    "who serves a file system shows the hash one content and the mapping another; so FUSE is refused, unless the policy \
     says that its servers are trusted",
));

pub(crate) const CHANGES_BELOW: Technique =
    served("fuse_below_overlay", "Serve other code once it was read, below an overlay of one's own", changes_below)
        .outcome(Outcome::NotStopped(
            "an overlay does not show what it lies on, and containers need overlays; `--refuse-uncacheable` or \
             `--file-system overlay=deny` refuses it",
        ));

/// Approved code that returns another number than the attacker waits for, and code that nobody approved.
fn with_both_codes(arena: &Arena) -> io::Result<()> {
    arena.with_both()?;
    arena.approved_file("honest", &code_bytes(43))?;
    arena.file("other", &code_bytes(42)).map(drop)
}

fn mounted(arena: &Arena) -> io::Result<std::path::PathBuf> {
    own_namespace()?;
    let place = arena.path("served");
    fs::create_dir_all(&place)?;
    Ok(place)
}

fn program(arena: &Arena) -> io::Result<()> {
    arena.attack("fuse-program", [mounted(arena)?, arena.stranger()])
}

fn changes_below(arena: &Arena) -> io::Result<()> {
    let place = mounted(arena)?;
    let (empty, merged) = (arena.path("empty"), arena.path("merged"));
    for folder in [&empty, &merged] {
        fs::create_dir_all(folder)?;
    }
    // Two layers to read from: an overlay of one must have a layer to write to.
    let below = format!("{}:{}", place.display(), empty.display());
    arena.attack("fuse-changes", [place, arena.path("honest"), arena.path("other"), below.into(), merged])
}

fn changes(arena: &Arena) -> io::Result<()> {
    arena.attack("fuse-changes", [mounted(arena)?, arena.path("honest"), arena.path("other")])
}
