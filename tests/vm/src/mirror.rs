// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which mirrors of Debian to use: those that this system is set up to use.

use std::process::Command;

use anyhow::{Result, bail};

use crate::command;

/// The base addresses of Debian's archives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrors {
    /// The main archive.
    pub main: String,
    /// The archive of security updates; without one, the suites `*-security` are left out.
    pub security: Option<String>,
}

impl Mirrors {
    /// Takes `TOUCHMARK_MIRROR` and `TOUCHMARK_SECURITY_MIRROR` where set, and what the system's apt uses
    /// for Debian otherwise.
    ///
    /// # Errors
    /// Neither names a main archive.
    pub fn detect() -> Result<Self> {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (main, security) = (set("TOUCHMARK_MIRROR"), set("TOUCHMARK_SECURITY_MIRROR"));
        if let Some(main) = main {
            return Ok(Self { main, security });
        }
        let targets = command::run(Command::new("apt-get").args([
            "indextargets",
            "--format",
            "$(ORIGIN)|$(REPO_URI)|$(CODENAME)",
            "Created-By: Packages",
        ]))?;
        let Some(mut found) = Self::parse(&targets) else {
            bail!(
                "no mirror of Debian found: apt's sources name none, or their lists were never fetched (try \
                 `apt-get update` as root); else set TOUCHMARK_MIRROR and TOUCHMARK_SECURITY_MIRROR to the \
                 addresses of one"
            );
        };
        if security.is_some() {
            found.security = security;
        }
        if found.security.is_none() {
            eprintln!("touchmark-vm: apt's sources name no security archive of Debian; going on without");
        }
        Ok(found)
    }

    /// Reads lines `ORIGIN|URI|CODENAME`; `None` when no main archive is among them.
    fn parse(targets: &str) -> Option<Self> {
        let mut main = None;
        let mut security = None;
        for line in targets.lines() {
            let mut fields = line.split('|');
            let (Some("Debian"), Some(uri), Some(codename)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            let slot = if codename.ends_with("-security") { &mut security } else { &mut main };
            slot.get_or_insert_with(|| uri.to_owned());
        }
        main.map(|main| Self { main, security })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_archives_of_debian_only() {
        let targets = "Other|http://other.example/x/|bookworm\n\
                       Debian|http://mirror.example/debian/|bookworm\n\
                       Debian|http://mirror.example/debian/|bookworm-updates\n\
                       Debian|http://mirror.example/security/|bookworm-security\n";
        let mirrors = Mirrors::parse(targets).expect("a mirror");
        assert_eq!(mirrors.main, "http://mirror.example/debian/");
        assert_eq!(mirrors.security.as_deref(), Some("http://mirror.example/security/"));
    }

    #[test]
    fn finds_none_elsewhere() {
        assert_eq!(Mirrors::parse("Ubuntu|http://mirror.example/ubuntu/|noble\n"), None);
        assert_eq!(Mirrors::parse(""), None);
    }
}
