// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fetches stock kernels and a Debian tree, and runs things on them by hand.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use touchmark_vm::protocol::{Outcome, TrialInfo};
use touchmark_vm::{Accel, Contents, Image, Kernel, Options, Programs, Series, Tree, run_script, run_trials, shell};

/// Boots stock Debian kernels with the programs of this workspace.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Fetch the kernels and the file tree into the cache; what is there is kept.
    Fetch {
        /// Fetch again what is the newest now.
        #[arg(long)]
        refresh: bool,
        /// Only this; both when left out.
        what: Option<What>,
    },
    /// Run a script inside and show what it prints; exits as the script does.
    Demo {
        #[command(flatten)]
        machine: MachineArguments,
        /// The script, a file of this host.
        script: PathBuf,
        /// Its arguments.
        arguments: Vec<String>,
        /// How long it may take, in seconds.
        #[arg(long, default_value_t = 600)]
        deadline: u64,
        /// A command of this host that changes the disk before it is made; it gets the folder that will be `/`.
        #[arg(long, value_name = "COMMAND")]
        prepare: Option<PathBuf>,
    },
    /// Open a shell inside. Ctrl-A X ends the machine.
    Shell {
        #[command(flatten)]
        machine: MachineArguments,
    },
    /// Run trials and benchmarks whose names contain FILTER; values are printed as JSON, one a line.
    Run {
        #[command(flatten)]
        machine: MachineArguments,
        /// Run benchmarks too.
        #[arg(long)]
        bench: bool,
        /// Part of the names.
        filter: Option<String>,
    },
}

/// What can be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// The kernels.
    Kernels,
    /// The file tree.
    Tree,
}

#[derive(Debug, Args)]
struct MachineArguments {
    /// The kernel: 6.1, 6.12, a suite, or newest.
    #[arg(long, default_value = "6.12")]
    kernel: String,
    /// Count instructions: each takes a nanosecond of the guest's clock.
    #[arg(long)]
    counted: bool,
    /// A word for the kernel's command line.
    #[arg(long)]
    cmdline: Vec<String>,
    /// A file or folder of this host for the machine.
    #[arg(long, value_name = "HOST:PLACE")]
    file: Vec<String>,
}

fn main() -> ExitCode {
    act(Arguments::parse().command).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn act(command: Action) -> Result<ExitCode> {
    match command {
        Action::Fetch { refresh, what } => fetch(refresh, what),
        Action::Demo { machine, script, arguments, deadline, prepare } => {
            let place = "/usr/lib/touchmark-vm/script";
            let setup = Setup::new(&machine, prepare.as_deref(), |contents| contents.file(script, place))?;
            let command: Vec<&str> = [place].into_iter().chain(arguments.iter().map(String::as_str)).collect();
            let guest = setup.programs.guest();
            let deadline = Duration::from_secs(deadline);
            let code = run_script(&setup.kernel, &setup.image, &guest, &command, &setup.options, deadline, |text| {
                print!("{text}");
                let _ = std::io::stdout().flush();
            })?;
            Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
        }
        Action::Shell { machine } => {
            let setup = Setup::new(&machine, None, |contents| contents)?;
            shell(&setup.kernel, &setup.image, &setup.programs.guest(), &setup.options)?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Run { machine, bench, filter } => run(&machine, bench, filter.as_deref().unwrap_or_default()),
    }
}

fn fetch(refresh: bool, what: Option<What>) -> Result<ExitCode> {
    if what != Some(What::Tree) {
        for series in Series::ALL {
            if refresh {
                Kernel::forget(series)?;
            }
            println!("kernel {}", Kernel::of(series)?.release);
        }
    }
    if what != Some(What::Kernels) {
        if refresh {
            Tree::forget()?;
        }
        println!("tree {}", Tree::fetch()?.path().display());
    }
    Ok(ExitCode::SUCCESS)
}

fn run(machine: &MachineArguments, bench: bool, filter: &str) -> Result<ExitCode> {
    let setup = Setup::new(machine, None, |contents| contents)?;
    let wanted = |trial: &TrialInfo| (bench || !trial.bench) && trial.name.contains(filter);
    let trials: Vec<TrialInfo> = setup.programs.trials()?.into_iter().filter(wanted).collect();
    let mut failed = 0;
    run_trials(&setup.kernel, &setup.image, &setup.programs.guest(), &trials, &setup.options, |finished| {
        for (key, value) in &finished.data {
            println!("{}", serde_json::json!({ "trial": finished.trial, "key": key, "value": value }));
        }
        let (word, detail) = match finished.outcome {
            Outcome::Passed => ("ok", String::new()),
            Outcome::Skipped { reason } => ("ignored", reason),
            Outcome::Failed { message } => {
                failed += 1;
                ("FAILED", format!("\n{message}"))
            }
        };
        eprintln!("{} ... {word} ({} ms) {detail}", finished.trial, finished.millis);
    })?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All that a boot takes.
struct Setup {
    kernel: Kernel,
    programs: Programs,
    image: Image,
    options: Options,
}

impl Setup {
    fn new(
        machine: &MachineArguments,
        prepare: Option<&Path>,
        more: impl FnOnce(Contents) -> Contents,
    ) -> Result<Self> {
        let kernel = Kernel::fetch(&machine.kernel)?;
        let programs = Programs::build()?;
        let mut contents = more(Contents::new().programs(&programs).modules(&kernel));
        for pair in &machine.file {
            let (host, place) = pair.split_once(':').context("expected HOST:PLACE")?;
            contents = contents.file(host, place);
        }
        let tree = Tree::fetch()?;
        let image = match prepare {
            Some(command) => Image::prepared(&tree, &contents, |root| run_on_host(command, root))?,
            None => Image::build(&tree, &contents)?,
        };
        let accel = if machine.counted { Accel::Counted } else { Accel::detect(&kernel, &programs.guest())? };
        let options = Options { accel, cmdline: machine.cmdline.clone(), ..Options::default() };
        Ok(Self { kernel, programs, image, options })
    }
}

/// Runs a command of this host, its output shown, with one argument.
fn run_on_host(command: &Path, argument: &Path) -> Result<()> {
    let status = std::process::Command::new(command).arg(argument).status();
    let status = status.with_context(|| format!("{} cannot be started", command.display()))?;
    ensure!(status.success(), "{} ended with {status}", command.display());
    Ok(())
}
