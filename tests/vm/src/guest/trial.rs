// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a trial is, and how one is run in its own process.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use touchmark_vm::protocol::TrialInfo;

use crate::{runner, system};

/// Exit code of a trial's process when the trial is skipped; the reason is the last line of its output.
pub(crate) const SKIPPED: u8 = 77;

/// One trial. Make it with [`trial`], in a module's `pub(crate) const TRIALS`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    name: &'static str,
    needs: &'static [Need],
    run: Run,
    bench: bool,
    seconds: u64,
}

#[derive(Clone, Copy, Debug)]
enum Run {
    Alone(fn() -> Result<()>),
    Named(fn(&str) -> Result<()>),
}

/// One of many trials that one function runs by their names.
pub(crate) const fn named(name: &'static str, run: fn(&str) -> Result<()>) -> Trial {
    Trial { name, needs: &[], run: Run::Named(run), bench: false, seconds: 60 }
}

/// A trial that passes when `run` returns `Ok`, and is skipped where the kernel or the disk lacks one of its `needs`.
pub(crate) const fn trial(name: &'static str, needs: &'static [Need], run: fn() -> Result<()>) -> Trial {
    Trial { name, needs, run: Run::Alone(run), bench: false, seconds: 60 }
}

impl Trial {
    /// The trial measures: it runs in benchmarks only.
    #[allow(dead_code, reason = "for benchmarks to come")]
    pub(crate) const fn bench(self) -> Self {
        Self { bench: true, ..self }
    }

    /// How long it may take instead of a minute, in seconds of the guest's clock.
    pub(crate) const fn seconds(self, seconds: u64) -> Self {
        Self { seconds, ..self }
    }
}

/// What a trial needs of the machine.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "for the modules to come")]
pub(crate) enum Need {
    /// A kernel of this version or a newer one.
    KernelFrom(u32, u32),
    /// A kernel older than this version.
    KernelBefore(u32, u32),
    /// This security module among the active ones.
    Lsm(&'static str),
    /// This function in the kernel, callable by BPF.
    Kfunc(&'static str),
    /// This program or file.
    File(&'static str),
    /// This kernel module, loaded or built in; it is loaded.
    Module(&'static str),
}

impl Need {
    /// Says what is missing, if something is.
    fn missing(self) -> Option<String> {
        let met = match self {
            Self::KernelFrom(major, minor) => system::kernel_version() >= (major, minor),
            Self::KernelBefore(major, minor) => system::kernel_version() < (major, minor),
            Self::Lsm(name) => system::active_lsms().is_ok_and(|active| active.iter().any(|lsm| lsm == name)),
            Self::Kfunc(name) => system::has_kernel_function(name),
            Self::File(path) => Path::new(path).exists(),
            Self::Module(name) => system::load_module(name).is_ok(),
        };
        (!met).then(|| self.to_string())
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KernelFrom(major, minor) => write!(f, "needs a kernel from {major}.{minor} on"),
            Self::KernelBefore(major, minor) => write!(f, "needs a kernel older than {major}.{minor}"),
            Self::Lsm(name) => write!(f, "needs the security module {name}"),
            Self::Kfunc(name) => write!(f, "needs the kernel function {name}"),
            Self::File(path) => write!(f, "needs {path}"),
            Self::Module(name) => write!(f, "needs the kernel module {name}"),
        }
    }
}

#[derive(Debug)]
struct Skip(String);

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skip {}

/// Ends a trial that finds out by itself that the kernel lacks what it is about.
pub(crate) fn skip(reason: impl Into<String>) -> Result<()> {
    Err(Skip(reason.into()).into())
}

/// The deadline of a trial in seconds, if there is a trial of that name.
pub(crate) fn deadline(modules: &[(&str, &[Trial])], name: &str) -> Option<u64> {
    find(modules, name).map(|trial| trial.seconds)
}

/// Prints all trials, one JSON object a line.
pub(crate) fn list(modules: &[(&str, &[Trial])]) {
    for (module, trials) in modules {
        for trial in *trials {
            let name = format!("{module}::{}", trial.name);
            let info = TrialInfo { name, bench: trial.bench, deadline: trial.seconds };
            println!("{}", serde_json::to_string(&info).unwrap_or_default());
        }
    }
}

/// Runs a trial in this process. A panic ends it with the exit code 101, as cargo's tests do.
pub(crate) fn run(modules: &[(&str, &[Trial])], name: &str) -> ExitCode {
    let Some(trial) = find(modules, name) else {
        eprintln!("no trial is called {name}");
        return ExitCode::FAILURE;
    };
    if let Err(error) = runner::enter_group() {
        eprintln!("error: {error:?}");
        return ExitCode::FAILURE;
    }
    if let Some(missing) = trial.needs.iter().find_map(|need| need.missing()) {
        eprintln!("{missing}");
        return ExitCode::from(SKIPPED);
    }
    let ended = match trial.run {
        Run::Alone(run) => run(),
        Run::Named(run) => run(trial.name),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref::<Skip>() {
            Some(skip) => {
                eprintln!("{skip}");
                ExitCode::from(SKIPPED)
            }
            None => {
                eprintln!("error: {error:?}");
                ExitCode::FAILURE
            }
        },
    }
}

fn find<'a>(modules: &'a [(&str, &[Trial])], name: &str) -> Option<&'a Trial> {
    let (module, name) = name.split_once("::")?;
    let (_, trials) = modules.iter().find(|(candidate, _)| *candidate == module)?;
    trials.iter().find(|trial| trial.name == name)
}
