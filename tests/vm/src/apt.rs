// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A private apt: its own sources, lists, state and archives, beside the system's and without root.
//!
//! Signatures are checked against the system's Debian keyring. The system's `apt.conf` still counts, because it may hold
//! the proxy that this machine needs; what in it would reach outside the private folders is cleared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache::{self, Scratch};
use crate::command;
use crate::mirror::Mirrors;

/// Where Debian's archive keys are, by the names that its releases gave the file.
const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.pgp", "/usr/share/keyrings/debian-archive-keyring.gpg"];

/// A view of some suites of Debian, for the architecture amd64.
#[derive(Debug)]
pub struct Apt {
    conf: PathBuf,
    archives: PathBuf,
}

impl Apt {
    /// Sets up a private apt for `suites` (such as `trixie` and `trixie-security`) and fetches their lists. The caller
    /// holds the [`cache::FetchLock`].
    ///
    /// # Errors
    /// There is no mirror or no keyring, or the lists cannot be fetched or are not signed by Debian.
    pub fn open(suites: &[&str]) -> Result<Self> {
        let first = suites.first().context("no suite given")?;
        Self::set_up(first, "deb [arch=amd64", suites)
    }

    /// As [`Apt::open`], for source packages, which only [`Apt::upstream`] fetches.
    ///
    /// # Errors
    /// As [`Apt::open`].
    pub fn open_sources(suites: &[&str]) -> Result<Self> {
        let first = suites.first().context("no suite given")?;
        Self::set_up(&format!("{first}-sources"), "deb-src [", suites)
    }

    fn set_up(name: &str, kind: &str, suites: &[&str]) -> Result<Self> {
        let mirrors = Mirrors::detect()?;
        let keyring = KEYRINGS
            .into_iter()
            .find(|path| Path::new(path).exists())
            .context("Debian's archive keys are missing: install the package debian-archive-keyring")?;
        let dir = cache::root()?.join("apt").join(name);
        for sub in ["etc/empty", "state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(dir.join(sub))?;
        }
        let mut sources = String::new();
        for suite in suites {
            let uri = if suite.ends_with("-security") { mirrors.security.as_ref() } else { Some(&mirrors.main) };
            if let Some(uri) = uri {
                sources.push_str(&format!("{kind} signed-by={keyring}] {uri} {suite} main\n"));
            }
        }
        fs::write(dir.join("etc/sources.list"), sources)?;
        fs::write(dir.join("status"), "")?;
        let conf = dir.join("etc/apt.conf");
        fs::write(&conf, configuration(&dir)?)?;
        let apt = Self { conf, archives: dir.join("cache/archives") };
        eprintln!("touchmark-vm: fetching the package lists of {}", suites.join(", "));
        command::run(apt.command("apt-get").args(["-q", "update", "--error-on=any"]))?;
        Ok(apt)
    }

    /// The names on which the newest version of a package depends (of alternatives, the first).
    ///
    /// # Errors
    /// The package does not exist.
    pub fn depends(&self, package: &str) -> Result<Vec<String>> {
        let shown = command::run(self.command("apt-cache").args(["show", "--no-all-versions", package]))?;
        let field = shown.lines().find_map(|line| line.strip_prefix("Depends:")).unwrap_or_default();
        Ok(dependency_names(field))
    }

    /// The packages themselves and all that they depend on, as if on a machine with none installed.
    ///
    /// # Errors
    /// The dependencies cannot be met.
    pub fn closure(&self, packages: &[&str]) -> Result<Vec<String>> {
        let plan = command::run(
            self.command("apt-get").args(["-q", "--simulate", "--no-install-recommends", "install"]).args(packages),
        )?;
        let names: Vec<String> = plan
            .lines()
            .filter_map(|line| line.strip_prefix("Inst "))
            .filter_map(|rest| rest.split_whitespace().next())
            .map(str::to_owned)
            .collect();
        ensure!(!names.is_empty(), "apt plans to install nothing for {packages:?}");
        Ok(names)
    }

    /// Downloads packages (not what they depend on), checked against the signed lists; those already there are kept.
    /// Returns the archives in the order of `packages`.
    ///
    /// # Errors
    /// A package does not exist or cannot be downloaded.
    pub fn download(&self, packages: &[String]) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for line in
            command::run(self.command("apt-get").args(["-q", "download", "--print-uris"]).args(packages))?.lines()
        {
            // 'URI' FILE SIZE HASH
            let mut fields = line.split_whitespace();
            if let (Some(_), Some(file)) = (fields.next().filter(|uri| uri.starts_with('\'')), fields.next()) {
                files.push(file.to_owned());
            }
        }
        let mut places = Vec::new();
        let mut missing = Vec::new();
        for package in packages {
            let prefix = format!("{package}_");
            let file = files.iter().find(|file| file.starts_with(&prefix));
            let file = file.with_context(|| format!("apt names no archive for {package}"))?;
            places.push(self.archives.join(file));
            if !self.archives.join(file).exists() {
                missing.push((package, file));
            }
        }
        if !missing.is_empty() {
            eprintln!("touchmark-vm: downloading {} packages", missing.len());
            let scratch = Scratch::new()?;
            let wanted = missing.iter().map(|(package, _)| package.as_str());
            command::run(self.command("apt-get").args(["-q", "download"]).args(wanted).current_dir(scratch.path()))?;
            for (_, file) in missing {
                cache::publish(&scratch.path().join(file), &self.archives.join(file))?;
            }
        }
        Ok(places)
    }

    /// Downloads the archive that a source package's authors published, without Debian's changes, checked against the
    /// signed lists, into a folder of the caller's.
    ///
    /// # Errors
    /// The package does not exist or cannot be downloaded.
    pub fn upstream(&self, package: &str, into: &Path) -> Result<PathBuf> {
        let mut download = self.command("apt-get");
        download.args(["-q", "source", "--only-source", "--download-only", "--tar-only", package]).current_dir(into);
        command::run(&mut download)?;
        let mut files = fs::read_dir(into)?.filter_map(|entry| Some(entry.ok()?.path()));
        let is_archive = |path: &PathBuf| {
            path.to_string_lossy().contains(".orig.tar.") && path.extension().is_some_and(|it| it != "asc")
        };
        files.find(is_archive).with_context(|| format!("apt fetched no archive of {package}"))
    }

    fn command(&self, program: &str) -> Command {
        // A killed run must not leave an apt behind that holds the lock of the lists.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", program]);
        command.arg("--config-file").arg(&self.conf).env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
        command
    }
}

/// Unpacks an archive's files into a folder.
///
/// # Errors
/// `dpkg-deb` fails.
pub fn unpack(archive: &Path, into: &Path) -> Result<()> {
    command::run(Command::new("dpkg-deb").arg("--extract").arg(archive).arg(into)).map(drop)
}

/// The private configuration, read after the system's.
fn configuration(dir: &Path) -> Result<String> {
    let dir = dir.to_str().context("the cache's path is not UTF-8")?;
    ensure!(!dir.contains(['"', '\n']), "the cache's path must not contain quotes or line breaks");
    Ok(format!(
        r#"Dir::State "{dir}/state";
Dir::State::lists "{dir}/state/lists";
Dir::State::status "{dir}/status";
Dir::State::extended_states "{dir}/state/extended_states";
Dir::Cache "{dir}/cache";
Dir::Cache::archives "{dir}/cache/archives";
Dir::Etc::sourcelist "{dir}/etc/sources.list";
Dir::Etc::sourceparts "{dir}/etc/empty";
Dir::Etc::preferences "{dir}/etc/none";
Dir::Etc::preferencesparts "{dir}/etc/empty";
Dir::Etc::trusted "{dir}/etc/none";
Dir::Etc::trustedparts "{dir}/etc/empty";
Dir::Log "{dir}/state";
APT::Architecture "amd64";
#clear APT::Architectures;
APT::Architectures {{ "amd64"; }};
APT::Sandbox::User "root";
APT::Install-Recommends "false";
#clear APT::Default-Release;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear Acquire::IndexTargets::deb;
Acquire::IndexTargets::deb::Packages {{
  MetaKey "$(COMPONENT)/binary-$(ARCHITECTURE)/Packages";
  ShortDescription "Packages";
  Description "$(RELEASE)/$(COMPONENT) $(ARCHITECTURE) Packages";
  Optional "0";
}};
Acquire::Languages "none";
Acquire::PDiffs "false";
Acquire::Retries "3";
"#
    ))
}

/// The names in a `Depends` field: `a (>= 1) | b, c:any` gives `a` and `c`.
fn dependency_names(field: &str) -> Vec<String> {
    field
        .split(',')
        .filter_map(|group| group.trim().split([' ', '|', ':', '(']).next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_dependencies() {
        let field = " dracut | initramfs-tools (>= 0.120), linux-base:any (>= 4), linux-modules-7.2+x (= 7.2~1)";
        assert_eq!(dependency_names(field), ["dracut", "linux-base", "linux-modules-7.2+x"]);
        assert!(dependency_names("").is_empty());
    }
}
