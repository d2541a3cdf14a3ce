// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boots each stock kernel and runs the guest's trials in it: `linux_6_12::MODULE::NAME`.
//!
//! `TOUCHMARK_VM_KERNELS=6.12` selects kernels, a filter selects trials, `TOUCHMARK_VM_CONSOLE=1` shows the consoles.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use touchmark_vm::protocol::{Outcome, TrialInfo};
use touchmark_vm::{Accel, Contents, Image, Kernel, Options, Programs, Tree, run_trials};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let threads = Threads::default();
    match prepare(&arguments, &threads) {
        Ok(trials) => {
            let code = libtest_mimic::run(&arguments, trials).exit_code();
            // Machines and scratch folders are gone when these threads are.
            threads.lock().map(|mut threads| threads.drain(..).for_each(|thread| drop(thread.join()))).ok();
            code
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The threads that run machines.
type Threads = Arc<Mutex<Vec<JoinHandle<()>>>>;

/// The trials of all selected kernels; the first of a kernel's that is asked for boots it.
fn prepare(arguments: &Arguments, threads: &Threads) -> Result<Vec<Trial>> {
    let programs = Programs::build()?;
    let infos: Vec<TrialInfo> = programs.trials()?.into_iter().filter(|trial| !trial.bench).collect();
    let kernels = Kernel::selected()?;
    let names =
        |kernel: &Kernel, info: &TrialInfo| format!("linux_{}::{}", kernel.version.replace('.', "_"), info.name);
    if arguments.list {
        let all = kernels.iter().flat_map(|kernel| infos.iter().map(move |info| names(kernel, info)));
        return Ok(all.map(|name| Trial::test(name, || Ok(()))).collect());
    }
    let contents = kernels.iter().fold(Contents::new().programs(&programs), Contents::modules);
    let shared = Arc::new((Image::build(&Tree::fetch()?, &contents)?, programs));

    let mut trials = Vec::new();
    for kernel in kernels {
        let mut senders = HashMap::new();
        let mut wanted = Vec::new();
        let mut waiting = Vec::new();
        for info in &infos {
            let (sender, receiver) = channel();
            let probe = Trial::test(names(&kernel, info), || Ok(()));
            if !arguments.is_filtered_out(&probe) {
                wanted.push(info.clone());
            }
            senders.insert(info.name.clone(), sender);
            waiting.push((names(&kernel, info), receiver));
        }
        let boot = Arc::new(Mutex::new(Some(Boot { kernel, wanted, senders, shared: Arc::clone(&shared) })));
        for (name, receiver) in waiting {
            let (boot, threads) = (Arc::clone(&boot), Arc::clone(threads));
            trials.push(Trial::ignorable_test(name.clone(), move || result(&name, &boot, &threads, &receiver)));
        }
    }
    Ok(trials)
}

/// What it takes to run one kernel's trials.
struct Boot {
    kernel: Kernel,
    wanted: Vec<TrialInfo>,
    senders: HashMap<String, Sender<Result<Outcome, String>>>,
    shared: Arc<(Image, Programs)>,
}

impl Boot {
    /// Runs all wanted trials; whoever waits for one gets its result as soon as it is there.
    fn run(self) {
        let ran = (|| {
            let (image, programs) = &*self.shared;
            let guest = programs.guest();
            let options = Options { accel: Accel::detect(&self.kernel, &guest)?, ..Options::default() };
            run_trials(&self.kernel, image, &guest, &self.wanted, &options, |finished| {
                if let Some(sender) = self.senders.get(&finished.trial) {
                    let _ = sender.send(Ok(finished.outcome));
                }
            })
        })();
        if let Err(error) = ran {
            for sender in self.senders.values() {
                let _ = sender.send(Err(format!("{error:#}")));
            }
        }
    }
}

/// The result of one trial, waited for.
fn result(
    name: &str,
    boot: &Mutex<Option<Boot>>,
    threads: &Threads,
    receiver: &Receiver<Result<Outcome, String>>,
) -> Result<Completion, Failed> {
    let boot = boot.lock().map_err(|_| "the machine's thread panicked")?.take();
    if let Some(boot) = boot {
        let thread = std::thread::spawn(move || boot.run());
        threads.lock().map_err(|_| "a machine's thread panicked")?.push(thread);
    }
    match receiver
        .recv()
        .context("the machine's thread ended early")
        .map_err(|error| Failed::from(format!("{error:#}")))?
    {
        Ok(Outcome::Passed) => Ok(Completion::Completed),
        Ok(Outcome::Skipped { reason }) => {
            eprintln!("{name} is ignored: {reason}");
            Ok(Completion::ignored_with(reason))
        }
        Ok(Outcome::Failed { message }) | Err(message) => Err(Failed::from(message)),
    }
}
