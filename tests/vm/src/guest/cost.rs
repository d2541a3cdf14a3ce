// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each protection costs, on a machine whose clock counts instructions: without any, with Touchmark, with fapolicyd
//! and with IMA's appraisal, in turn in one boot. The last stays until the next boot, so it has one round, the last.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use touchmark_vm::protocol::GUEST_ON_DISK;

use crate::sh::{self, Folder};
use crate::site::{generate_key_of, kernel_verifies, text, touchmark_ok};
use crate::trial::{Need, Trial, trial};
use crate::workload::{self, BUILDERS, S0, Times};
use crate::{fapolicyd, ima, report};

/// How often the protections are measured in turn.
const ROUNDS: usize = 3;
/// What is repeated for one median, and where every start is hashed.
const REPEATS: &str = "21";
const FEW_REPEATS: &str = "3";
/// The workload's primary group, which the neighbours' rules are about.
const GROUP: &str = "4711";

pub(crate) const TRIALS: &[Trial] =
    &[trial("protections", &[Need::File(fapolicyd::PROGRAM), Need::File(ima::POLICY)], protections)
        .bench()
        .seconds(3600)];

fn protections() -> Result<()> {
    let bench = Bench::new()?;
    let mut times: BTreeMap<&str, Vec<Times>> = BTreeMap::new();
    let mut add = |name, sample| times.entry(name).or_default().push(sample);
    let samples =
        |kind: &str| (0..ROUNDS).map(|round| bench.unseen(&format!("{kind}-{round}"))).collect::<Result<Vec<_>>>();
    let (off, touchmark, neighbour, appraised) =
        (samples("off")?, samples("touchmark")?, samples("fapolicyd")?, bench.unseen("ima")?);
    bench.sign(&bench.common)?;
    touchmark.iter().try_for_each(|(_, files)| bench.sign(files))?;
    for round in 0..ROUNDS {
        add("off", bench.sample(&off[round].0, REPEATS)?);

        bench.enforce(&touchmark[round].1, &[])?;
        add("touchmark", bench.sample(&touchmark[round].0, REPEATS)?);
        touchmark_ok(["enforce", "--mode", "off"])?;

        let mut trusted = bench.common.clone();
        trusted.extend(neighbour[round].1.iter().cloned());
        fapolicyd::configure(GROUP, "", &sh::sha256(&trusted)?)?;
        let daemon = fapolicyd::Daemon::start()?;
        add("fapolicyd", bench.sample(&neighbour[round].0, REPEATS)?);
        drop(daemon);
    }
    // ext4 by its magic number: nothing is kept, as in S2's column for an empty cache.
    bench.enforce(&BTreeSet::new(), &["--file-system", "0xef53=hash"])?;
    add("touchmark_uncached", bench.sample(&bench.project, FEW_REPEATS)?);
    touchmark_ok(["enforce", "--mode", "off"])?;

    let labelled: BTreeSet<_> = bench.common.union(&appraised.1).cloned().collect();
    ima::label(&sh::sha256(&labelled)?)?;
    ima::appraise(&["BPRM_CHECK", "MMAP_CHECK mask=MAY_EXEC"], &[format!("gid={GROUP}")])?;
    add("ima", bench.sample(&appraised.0, REPEATS)?);
    report::value("sizes", workload::SIZES)?;
    report::value("protections", times)
}

/// A key, what the workload runs, and the files that are new in each round.
struct Bench {
    folder: Folder,
    /// What is compiled, in a folder without unseen files.
    project: PathBuf,
    common: BTreeSet<PathBuf>,
}

impl Bench {
    fn new() -> Result<Self> {
        let folder = Folder::new()?;
        // The algorithm that most keys have, and the default.
        generate_key_of("rsa2048", &folder.path().join("own"))?;
        let project = folder.path().join("project");
        workload::prepare_build(&project)?;
        let programs = S0.iter().map(|name| format!("/usr/bin/{name}"));
        let others = BUILDERS.into_iter().chain([
            "/usr/bin/touchmark",
            "/usr/sbin/touchmarkd",
            GUEST_ON_DISK,
            "/usr/bin/setpriv",
        ]);
        let mut common = BTreeSet::new();
        for program in programs.chain(others.map(str::to_owned)) {
            common.append(&mut sh::with_libraries(&program)?);
        }
        Ok(Self { folder, project, common })
    }

    /// A folder with the project and files that nothing is known of.
    fn unseen(&self, name: &str) -> Result<(PathBuf, BTreeSet<PathBuf>)> {
        let folder = self.folder.path().join(name);
        fs::create_dir(&folder)?;
        let files = workload::prepare_unseen(&folder)?;
        workload::prepare_build(&folder)?;
        Ok((folder, files.into_iter().collect()))
    }

    fn own(&self, name: &str) -> PathBuf {
        self.folder.path().join("own").join(name)
    }

    fn sign(&self, files: &BTreeSet<PathBuf>) -> Result<()> {
        let (key, certificate) = (self.own("key.pem"), self.own("cert.pem"));
        let words = ["sign", "--key", text(&key), "--cert", text(&certificate), "--container", "xattr"];
        let words = words.map(Path::new).into_iter().chain(files.iter().map(PathBuf::as_path));
        touchmark_ok(words).map(drop)
    }

    /// For all of the root file system. Kernels that look at no signature are told of each file, `new` ones among them.
    fn enforce(&self, new: &BTreeSet<PathBuf>, options: &[&str]) -> Result<()> {
        let certificate = self.own("cert.pem");
        let words = ["enforce", "--force", "--cert", text(&certificate), "--scope", "mount:/", "--mode"];
        let start = |mode| touchmark_ok(words.iter().chain(&[mode]).chain(options));
        if !kernel_verifies() {
            start("permissive")?;
            let files = self.common.iter().chain(new).map(PathBuf::as_path);
            touchmark_ok([Path::new("admit")].into_iter().chain(files))?;
        }
        start("enforce").map(drop)
    }

    fn sample(&self, folder: &Path, repeats: &str) -> Result<Times> {
        let words = ["setpriv", "--regid", GROUP, "--keep-groups", GUEST_ON_DISK, "workload", text(folder), repeats];
        serde_json::from_str(&sh::succeed(words)?).context("the workload printed no times")
    }
}
