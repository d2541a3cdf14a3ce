// SPDX-License-Identifier: Apache-2.0 OR MIT
//! fapolicyd with the rules that it ships, about one group of processes, and a list of what it trusts, by SHA-256.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::sh;
use crate::site::soon;

/// Where Debian has it.
pub(crate) const PROGRAM: &str = "/usr/sbin/fapolicyd";

/// `first`: rules before the last one, which allows everything. `trusted`: files and their SHA-256 in hexadecimal digits.
pub(crate) fn configure(group: &str, first: &str, trusted: &[(PathBuf, String)]) -> Result<()> {
    let mut list = String::new();
    for (path, sha256) in trusted {
        list += &format!("{} {} {sha256}\n", path.display(), fs::metadata(path)?.len());
    }
    let rules = format!("{}{first}allow perm=any all : all\n", shipped_rules(group)?);
    sh::write("/etc/fapolicyd/compiled.rules", rules.as_bytes())?;
    sh::write("/etc/fapolicyd/fapolicyd.trust", list.as_bytes())?;
    sh::write(
        "/etc/fapolicyd/fapolicyd.conf",
        b"permissive = 0\nnice_val = 0\nq_size = 800\nuid = root\ngid = root\ndo_stat_report = 0\n\
          detailed_report = 0\ndb_max_size = 50\nsubj_cache_size = 1549\nobj_cache_size = 8191\n\
          watch_fs = ext2,ext3,ext4,tmpfs,xfs,vfat,iso9660,btrfs,overlay\ntrust = file\nintegrity = sha256\n\
          syslog_format = rule,dec,perm,auid,pid,exe,:,path,ftype,trust\n",
    )?;
    for folder in ["/var/lib/fapolicyd", "/run/fapolicyd", "/etc/fapolicyd/trust.d", "/etc/fapolicyd/rules.d"] {
        fs::create_dir_all(folder)?;
    }
    Ok(())
}

fn shipped_rules(group: &str) -> Result<String> {
    let mut rules = String::new();
    let mut samples: Vec<_> =
        fs::read_dir("/usr/share/fapolicyd/sample-rules")?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    samples.sort();
    let wanted = ["10-", "20-", "30-", "40-", "41-", "42-", "70-", "72-", "90-", "95-"];
    for sample in samples {
        let name = sample.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // Those of another distribution and the variants that allow more are left out.
        if wanted.iter().any(|number| name.starts_with(number))
            && !name.contains("dracut")
            && !name.contains("updaters")
        {
            rules += &fs::read_to_string(&sample)?
                .replace(" all :", &format!(" gid={group} :"))
                .replace("pattern=", &format!("gid={group} pattern="));
        }
    }
    Ok(rules)
}

/// The running daemon, ended when dropped.
pub(crate) struct Daemon(Child);

impl Daemon {
    const LOG: &str = "/run/fapolicyd.log";

    /// Starts it, and waits until it listens.
    pub(crate) fn start() -> Result<Self> {
        let log = File::create(Self::LOG)?;
        let mut command = Command::new(PROGRAM);
        command.arg("--debug-deny").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut daemon = Self(command.spawn()?);
        soon("fapolicyd to listen", || {
            let said = fs::read_to_string(Self::LOG)?;
            ensure!(daemon.0.try_wait()?.is_none(), "fapolicyd ended: {said}");
            Ok(said.contains("listen").then_some(()))
        })
        .with_context(|| fs::read_to_string(Self::LOG).unwrap_or_default())?;
        Ok(daemon)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
