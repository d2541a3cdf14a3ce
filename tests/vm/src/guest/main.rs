// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What runs inside the machine: the first process of the initramfs, the first process of the disk, and one process for
//! each trial. On the host it only lists the trials.

mod act;
mod bypass;
mod bytes;
mod control;
mod cost;
mod enforce;
mod family;
mod fapolicyd;
mod faults;
mod guard;
mod ima;
mod init;
mod memlock;
mod model;
mod neighbours;
mod report;
mod revocation_lists;
mod revoke;
mod revoke_sealed;
mod robust;
mod rules;
mod runner;
mod sanity;
mod script;
mod sh;
mod site;
mod swap;
mod system;
mod tiny;
mod trial;
mod upgrade;
mod workload;

use std::process::ExitCode;

use trial::Trial;

/// The trials by module; the host names them `MODULE::NAME`.
static MODULES: &[(&str, &[Trial])] = &[
    ("sanity", sanity::TRIALS),
    ("enforce", enforce::TRIALS),
    ("control", control::TRIALS),
    ("guard", guard::TRIALS),
    ("rules", rules::TRIALS),
    ("robust", robust::TRIALS),
    ("upgrade", upgrade::TRIALS),
    ("model", model::TRIALS),
    ("revoke", revoke::TRIALS),
    ("revoke_sealed", revoke_sealed::TRIALS),
    ("revocation_lists", revocation_lists::TRIALS),
    ("faults", faults::TRIALS),
    ("bytes", bytes::TRIALS),
    ("neighbours", neighbours::TRIALS),
    ("bypass", bypass::TRIALS),
    ("memlock", memlock::TRIALS),
    ("swap", swap::TRIALS),
    ("cost", cost::TRIALS),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--list"] => trial::list(MODULES),
        ["trial", name] => return trial::run(MODULES, name),
        ["attempt", name, folder, group] => return bypass::attempt(name, folder, group),
        ["neighbour", name, folder] => return neighbours::attempt(name, folder),
        ["workload", folder, repeats] => {
            if let Err(error) = workload::run(folder, repeats) {
                eprintln!("{error:#}");
                return ExitCode::FAILURE;
            }
        }
        ["act", act] => return act::run(act),
        ["on-disk"] => init::second_stage(MODULES),
        [] if std::process::id() == 1 => init::first_stage(),
        _ => {
            eprintln!("usage: touchmark-vm-guest --list (on the host; all else is for the machine)");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
