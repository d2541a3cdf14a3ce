// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of all techniques that SECURITY.md shows.

use rustix::io::Errno;

use crate::{FAMILIES, Neighbour, Outcome, Result, Technique};

/// The table, in Markdown. Each cell is what a trial of `tests/vm` asserts.
#[must_use]
pub fn table() -> String {
    let mut text = String::from("| technique | Touchmark | IMA appraisal | fapolicyd |\n|---|---|---|---|\n");
    for (family, techniques) in FAMILIES {
        text += &format!("| **{family}** | | | |\n");
        for technique in *techniques {
            text += &format!(
                "| {}{} `{}` | {} | {} | {} |\n",
                technique.about,
                since(technique),
                technique.name,
                ours(technique),
                theirs(technique, Neighbour::Ima),
                theirs(technique, Neighbour::Fapolicyd)
            );
        }
    }
    text
}

fn since(technique: &Technique) -> String {
    match technique.since {
        (0, 0) => String::new(),
        (major, minor) => format!(" (from {major}.{minor} on)"),
    }
}

fn ours(technique: &Technique) -> String {
    match technique.outcome {
        Outcome::Stopped(errno, []) => format!("stopped: `{}`", name(errno)),
        Outcome::Stopped(errno, reasons) => format!("stopped: `{}`, `{}`", name(errno), reasons.join("` or `")),
        Outcome::KernelStops(errno) => format!("stopped by the kernel itself: `{}`", name(errno)),
        Outcome::NotStopped(why) => format!("**not stopped**: {why}"),
        Outcome::Rightful => "works, as it should".to_owned(),
    }
}

fn theirs(technique: &Technique, neighbour: Neighbour) -> &'static str {
    match technique.known(neighbour) {
        Some(Result::Stopped) => "stopped",
        Some(Result::NotStopped) => "not stopped",
        Some(Result::Kernel) => "stopped by the kernel itself",
        Some(Result::Untried) => "not tried",
        None => "",
    }
}

fn name(errno: Errno) -> String {
    match errno {
        Errno::PERM => "EPERM".to_owned(),
        Errno::TXTBSY => "ETXTBSY".to_owned(),
        other => format!("errno {}", other.raw_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    const BEGIN: &str = "<!-- techniques: made by `make table`, do not edit -->\n";
    const END: &str = "<!-- techniques end -->\n";

    /// With TOUCHMARK_WRITE_TABLE=1 it writes the table instead.
    #[test]
    fn security_md_shows_this_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../SECURITY.md");
        let text = fs::read_to_string(&path).expect("SECURITY.md");
        let (before, rest) = text.split_once(BEGIN).expect("the begin's mark");
        let (shown, after) = rest.split_once(END).expect("the end's mark");
        let wanted = format!("\n{}\n", table());
        if std::env::var_os("TOUCHMARK_WRITE_TABLE").is_some() {
            fs::write(&path, [before, BEGIN, &wanted, END, after].concat()).expect("written");
        } else {
            assert!(shown == wanted, "SECURITY.md is older than the techniques: make table");
        }
    }
}
