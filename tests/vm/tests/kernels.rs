// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boots each stock kernel and runs the guest's trials in it: `linux_6_12::MODULE::NAME`. As many machines run at once as
//! there are processors.
//!
//! `TOUCHMARK_VM_KERNELS=6.12` selects kernels, a filter selects trials, `TOUCHMARK_VM_CONSOLE=1` shows the consoles.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
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
    match prepare(&arguments) {
        Ok((trials, boots)) => {
            let machines = start(boots);
            let code = libtest_mimic::run(&arguments, trials).exit_code();
            // Machines and scratch folders are gone when these threads are.
            machines.into_iter().for_each(|machine| drop(machine.join()));
            code
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The trials of all selected kernels, and the machines that they are to run in.
fn prepare(arguments: &Arguments) -> Result<(Vec<Trial>, Vec<Boot>)> {
    let programs = Programs::build()?;
    let infos: Vec<TrialInfo> = programs.trials()?.into_iter().filter(|trial| !trial.bench).collect();
    let kernels = Kernel::selected()?;
    let names =
        |kernel: &Kernel, info: &TrialInfo| format!("linux_{}::{}", kernel.version.replace('.', "_"), info.name);
    if arguments.list {
        let all = kernels.iter().flat_map(|kernel| infos.iter().map(move |info| names(kernel, info)));
        return Ok((all.map(|name| Trial::test(name, || Ok(()))).collect(), Vec::new()));
    }
    let contents = kernels.iter().fold(Contents::new().programs(&programs), Contents::modules);
    let shared = Arc::new((Image::build(&Tree::fetch()?, &contents)?, programs));

    let (mut trials, mut boots) = (Vec::new(), Vec::new());
    for kernel in kernels {
        for part in parts(&infos) {
            let mut boot = Boot {
                kernel: kernel.clone(),
                wanted: Vec::new(),
                senders: HashMap::new(),
                shared: Arc::clone(&shared),
            };
            for info in part {
                let name = names(&kernel, info);
                if !arguments.is_filtered_out(&Trial::test(&name, || Ok(()))) {
                    let (sender, receiver) = channel();
                    boot.wanted.push(info.clone());
                    boot.senders.insert(info.name.clone(), sender);
                    trials.push(Trial::ignorable_test(name.clone(), move || result(&name, &receiver)));
                }
            }
            if !boot.wanted.is_empty() {
                boots.push(boot);
            }
        }
    }
    Ok((trials, boots))
}

/// The first modules of the parts that run in machines of their own: so no processor waits long for the last machine.
/// Modules are not split, because some trials share what they found.
const PARTS: [&str; 2] = ["robust::", "bypass::"];

fn parts(infos: &[TrialInfo]) -> Vec<&[TrialInfo]> {
    let begins = |index: &usize| PARTS.iter().any(|part| infos[*index].name.starts_with(part));
    let continues = |index: &usize| infos[*index - 1].name.split("::").next() == infos[*index].name.split("::").next();
    let cuts = (1..infos.len()).filter(|index| begins(index) && !continues(index));
    let ends = cuts.clone().chain([infos.len()]);
    [0].into_iter().chain(cuts).zip(ends).map(|(begin, end)| &infos[begin..end]).collect()
}

/// Runs the machines, one for each processor at a time; who comes first is who was named first.
fn start(boots: Vec<Boot>) -> Vec<JoinHandle<()>> {
    let count = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(boots.len());
    let waiting = Arc::new(Mutex::new(VecDeque::from(boots)));
    let next = |waiting: &Mutex<VecDeque<Boot>>| waiting.lock().ok()?.pop_front();
    (0..count)
        .map(|_| {
            let waiting = Arc::clone(&waiting);
            std::thread::spawn(move || {
                while let Some(boot) = next(&waiting) {
                    boot.run();
                }
            })
        })
        .collect()
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
fn result(name: &str, receiver: &Receiver<Result<Outcome, String>>) -> Result<Completion, Failed> {
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
