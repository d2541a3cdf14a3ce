// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Debian's stock cloud kernels, fetched from Debian and kept in the cache.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::apt::{self, Apt};
use crate::cache::{self, FetchLock, Scratch};
use crate::modules::{FOR_USE, Modules};

/// The package that always depends on the newest kernel of its suite.
const META_PACKAGE: &str = "linux-image-cloud-amd64";
/// Counted up when what is kept of a kernel changes, so that an older cache is not taken for it.
const LAYOUT: u32 = 2;

/// Where a kernel comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// Debian 12: Linux 6.1.
    Bookworm,
    /// Debian 13: Linux 6.12.
    Trixie,
    /// The newest that Debian 13's backports hold.
    TrixieBackports,
}

impl Series {
    /// All, the oldest kernel first.
    pub const ALL: [Self; 3] = [Self::Bookworm, Self::Trixie, Self::TrixieBackports];

    fn suites(self) -> &'static [&'static str] {
        match self {
            Self::Bookworm => &["bookworm", "bookworm-security"],
            Self::Trixie => &["trixie", "trixie-security"],
            Self::TrixieBackports => &["trixie-backports"],
        }
    }

    /// The suite's name, as `TOUCHMARK_VM_KERNELS` takes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
            Self::TrixieBackports => "trixie-backports",
        }
    }

    /// The kernel version where the suite fixes it.
    fn version(self) -> Option<&'static str> {
        match self {
            Self::Bookworm => Some("6.1"),
            Self::Trixie => Some("6.12"),
            Self::TrixieBackports => None,
        }
    }
}

/// A kernel in the cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kernel {
    /// The release, such as `6.12.117+deb13-cloud-amd64`.
    pub release: String,
    /// The first two parts of the release, such as `6.12`.
    pub version: String,
    #[serde(skip)]
    folder: PathBuf,
}

impl Kernel {
    /// The kernel of that version (`6.1`, `6.12`, `7.2`), or of that suite (`bookworm`, `trixie`, `trixie-backports`), or
    /// the `newest`.
    ///
    /// # Errors
    /// No suite has it, or it cannot be fetched.
    pub fn fetch(wanted: &str) -> Result<Self> {
        for series in Series::ALL {
            let newest = series == Series::TrixieBackports && matches!(wanted, "newest" | "backports");
            if newest || wanted == series.name() || series.version() == Some(wanted) {
                return Self::of(series);
            }
        }
        let newest = Self::of(Series::TrixieBackports)?;
        if newest.version != wanted {
            bail!("expected the kernel 6.1, 6.12, {} or newest, found {wanted}", newest.version);
        }
        Ok(newest)
    }

    /// The kernels that `TOUCHMARK_VM_KERNELS` names (separated by commas), or all three.
    ///
    /// # Errors
    /// One cannot be fetched.
    pub fn selected() -> Result<Vec<Self>> {
        match std::env::var("TOUCHMARK_VM_KERNELS").ok().filter(|list| !list.trim().is_empty()) {
            Some(list) => list.split(',').map(|wanted| Self::fetch(wanted.trim())).collect(),
            None => Series::ALL.into_iter().map(Self::of).collect(),
        }
    }

    /// The kernel of a series: from the cache, or fetched when it is not there.
    ///
    /// # Errors
    /// It cannot be fetched.
    pub fn of(series: Series) -> Result<Self> {
        let folder = cache::root()?.join("kernels").join(format!("{}-{LAYOUT}", series.name()));
        if let Some(kernel) = Self::cached(&folder)? {
            return Ok(kernel);
        }
        let _lock = FetchLock::acquire()?;
        if let Some(kernel) = Self::cached(&folder)? {
            return Ok(kernel);
        }
        Self::download(series, &folder).with_context(|| format!("the kernel of {} could not be fetched", series.name()))
    }

    /// Forgets the cached kernel of a series, so that the next use fetches what is the newest then.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub fn forget(series: Series) -> Result<()> {
        let _lock = FetchLock::acquire()?;
        let folder = cache::root()?.join("kernels").join(format!("{}-{LAYOUT}", series.name()));
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        Ok(())
    }

    /// The compressed kernel to boot.
    #[must_use]
    pub fn vmlinuz(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// The folder that holds `lib/modules/RELEASE` with the modules of [`FOR_USE`], uncompressed.
    #[must_use]
    pub fn module_root(&self) -> PathBuf {
        self.folder.join("modules")
    }

    /// The index of those modules.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn modules(&self) -> Result<Modules> {
        Modules::read(self.module_root().join("lib/modules").join(&self.release))
    }

    /// The version as two numbers that can be compared; (0, 0) when it is none.
    pub(crate) fn numbers(&self) -> (u32, u32) {
        let mut parts = self.version.split('.').map_while(|part| part.parse().ok());
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    fn cached(folder: &Path) -> Result<Option<Self>> {
        let Ok(text) = fs::read(folder.join("kernel.json")) else { return Ok(None) };
        let kernel: Self = serde_json::from_slice(&text).with_context(|| format!("{} is damaged", folder.display()))?;
        Ok(Some(Self { folder: folder.to_owned(), ..kernel }))
    }

    fn download(series: Series, folder: &Path) -> Result<Self> {
        let apt = Apt::open(series.suites())?;
        let archives = apt.download(&parts(&apt)?)?;
        let scratch = Scratch::new()?;
        let unpacked = scratch.path().join("unpacked");
        for archive in &archives {
            apt::unpack(archive, &unpacked)?;
        }
        // Up to 6.1 the modules are in lib, later in usr/lib; depmod looks in lib.
        let root = if unpacked.join("lib/modules").exists() { unpacked.clone() } else { unpacked.join("usr") };
        let release = only_entry(&root.join("lib/modules"))?;
        let image = [
            unpacked.join("boot").join(format!("vmlinuz-{release}")),
            root.join("lib/modules").join(&release).join("vmlinuz"),
        ]
        .into_iter()
        .find(|path| path.exists())
        .with_context(|| format!("no vmlinuz in the packages of {release}"))?;

        let made = scratch.path().join("kernel");
        fs::create_dir(&made)?;
        fs::copy(image, made.join("vmlinuz"))?;
        Modules::index(&root, &release)?.copy(&FOR_USE, &made.join("modules"), &release)?;
        let version: Vec<&str> = release.split('.').take(2).collect();
        let kernel = Self { version: version.join("."), release, folder: folder.to_owned() };
        fs::write(made.join("kernel.json"), serde_json::to_vec(&kernel)?)?;
        cache::publish(&made, folder)?;
        Ok(kernel)
    }
}

/// The packages with the newest kernel's files: what the meta package depends on, followed down.
fn parts(apt: &Apt) -> Result<Vec<String>> {
    let is_part = |name: &String| {
        ["linux-image-", "linux-binary-", "linux-modules-"].iter().any(|prefix| name.starts_with(prefix))
    };
    let mut found: Vec<String> = apt.depends(META_PACKAGE)?.into_iter().filter(is_part).collect();
    let mut next = 0;
    while next < found.len() {
        for name in apt.depends(&found[next])?.into_iter().filter(is_part) {
            if !found.contains(&name) {
                found.push(name);
            }
        }
        next += 1;
    }
    if found.is_empty() {
        bail!("{META_PACKAGE} depends on no kernel");
    }
    Ok(found)
}

/// The name of the one entry of a folder.
fn only_entry(folder: &Path) -> Result<String> {
    let names: Vec<_> = fs::read_dir(folder)
        .with_context(|| format!("{} cannot be read", folder.display()))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    match <[String; 1]>::try_from(names) {
        Ok([name]) => Ok(name),
        Err(names) => bail!("expected one kernel in {}, found {names:?}", folder.display()),
    }
}
