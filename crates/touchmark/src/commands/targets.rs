// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments that all commands about files share.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::exit::UsageError;
use crate::files::walk::Selection;

/// Which files, and how they are worked on.
#[derive(Debug, clap::Args)]
pub(crate) struct Targets {
    /// Files and, with -r, folders
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Go into folders; symbolic links in them are not followed
    #[arg(short, long)]
    recursive: bool,
    /// Leave out what matches, by its path or by its name alone; of a folder, all that is in it
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// How many files at a time [default: the number of processors]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

impl Targets {
    /// What to work on; `writes`: leftovers of killed runs are removed on the way.
    pub(crate) fn selection(&self, writes: bool) -> anyhow::Result<Selection> {
        Ok(Selection {
            paths: self.paths.clone(),
            recursive: self.recursive,
            exclude: globs(&self.exclude)?,
            tidy: writes,
        })
    }

    /// How many threads.
    pub(crate) fn jobs(&self) -> NonZeroUsize {
        self.jobs.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
    }
}

fn globs(patterns: &[String]) -> Result<GlobSet, UsageError> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        // The error names the pattern.
        set.add(Glob::new(pattern).map_err(|error| UsageError(format!("--exclude: {error}")))?);
    }
    set.build().map_err(|error| UsageError(format!("--exclude: {error}")))
}
