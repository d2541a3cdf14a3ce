// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs under test, built for the machine: `touchmark`, `touchmarkd` and the guest's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::cache::Scratch;
use crate::command;
use crate::protocol::TrialInfo;

/// The built programs, without debug information, in a folder that goes when this is dropped.
#[derive(Debug)]
pub struct Programs {
    folder: Scratch,
}

impl Programs {
    /// Builds the packages `touchmark` and `touchmark-vm` in the profile and the target folder of the running program.
    ///
    /// # Errors
    /// The build fails.
    pub fn build() -> Result<Self> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args([
                "build",
                "--package",
                "touchmark",
                "--package",
                "touchmark-vm",
                "--bins",
                "--message-format",
                "json",
            ])
            .arg("--manifest-path")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml"))
            .stdin(Stdio::null())
            .stderr(Stdio::inherit());
        if let Some((target, profile)) = target_and_profile() {
            cargo.arg("--target-dir").arg(target).arg("--profile").arg(profile);
        }
        let output = cargo.output().context("cargo could not be started")?;
        if !output.status.success() {
            bail!("the build of the programs under test failed");
        }
        let folder = Scratch::new()?;
        let built = executables(&String::from_utf8_lossy(&output.stdout));
        for name in ["touchmark", "touchmarkd", "touchmark-vm-guest"] {
            let path = built.iter().find(|path| path.file_name().is_some_and(|file| file == name));
            let path = path.with_context(|| format!("cargo built no {name}"))?;
            command::run(Command::new("strip").arg("-o").arg(folder.path().join(name)).arg(path))?;
        }
        Ok(Self { folder })
    }

    /// The command line tool.
    #[must_use]
    pub fn touchmark(&self) -> PathBuf {
        self.folder.path().join("touchmark")
    }

    /// The daemon.
    #[must_use]
    pub fn touchmarkd(&self) -> PathBuf {
        self.folder.path().join("touchmarkd")
    }

    /// What runs the trials in the machine.
    #[must_use]
    pub fn guest(&self) -> PathBuf {
        self.folder.path().join("touchmark-vm-guest")
    }

    /// The trials that the guest knows.
    ///
    /// # Errors
    /// It does not run here, or prints something else.
    pub fn trials(&self) -> Result<Vec<TrialInfo>> {
        Ok(self.listed()?.into_iter().filter(|trial| !is_fault(trial)).collect())
    }

    /// The trials that go wrong on purpose.
    ///
    /// # Errors
    /// As [`Programs::trials`].
    pub fn faults(&self) -> Result<Vec<TrialInfo>> {
        Ok(self.listed()?.into_iter().filter(is_fault).collect())
    }

    fn listed(&self) -> Result<Vec<TrialInfo>> {
        let listed = command::run(Command::new(self.guest()).arg("--list"))?;
        listed.lines().map(|line| serde_json::from_str(line).context("the guest's list is damaged")).collect()
    }
}

fn is_fault(trial: &TrialInfo) -> bool {
    trial.name.starts_with("faults::")
}

/// The target folder and the profile of the running program: `TARGET/PROFILE[/deps]/PROGRAM`.
fn target_and_profile() -> Option<(PathBuf, String)> {
    let program = fs::canonicalize("/proc/self/exe").ok()?;
    let mut folder = program.parent()?;
    if folder.ends_with("deps") {
        folder = folder.parent()?;
    }
    let profile = match folder.file_name()?.to_str()? {
        "debug" => "dev",
        other => other,
    };
    Some((folder.parent()?.to_owned(), profile.to_owned()))
}

/// The programs that cargo says it built.
fn executables(messages: &str) -> Vec<PathBuf> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
    }
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .filter_map(|message| message.executable)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_executables_among_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","executable":null}
{"reason":"compiler-artifact","executable":"/t/debug/touchmark"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executables(messages), [PathBuf::from("/t/debug/touchmark")]);
    }
}
