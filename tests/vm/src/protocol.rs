// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What host and guest say to each other: a job in the initramfs, and one JSON event a line on the second serial port.

use serde::{Deserialize, Serialize};

/// Where the initramfs holds the [`Job`].
pub const JOB_FILE: &str = "/touchmark-job.json";
/// Where the second stage finds it after the switch to the disk.
pub const JOB_FILE_ON_DISK: &str = "/run/touchmark-vm/job.json";
/// Where the image holds the guest program.
pub const GUEST_ON_DISK: &str = "/usr/lib/touchmark-vm/touchmark-vm-guest";
/// The list of modules that the first stage loads, one path a line.
pub const BOOT_MODULES: &str = "/modules.boot";

/// What a machine is started for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// Say that the kernel booted, and power off before any disk is touched.
    Probe,
    /// Run these trials one after another.
    Trials(Vec<String>),
    /// Run a command of the image; what it writes is streamed.
    Script(Vec<String>),
    /// A shell on the console.
    Shell,
}

/// What a guest reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The kernel runs our first process.
    Boot {
        /// As `uname -r` prints it.
        release: String,
    },
    /// The disk is the root, everything is mounted.
    Ready,
    /// A trial starts.
    Start {
        /// Its name, such as `sanity::lsm_list`.
        trial: String,
    },
    /// A trial reports a value.
    Data {
        /// The trial's name.
        trial: String,
        /// What the value is called.
        key: String,
        /// The value.
        value: serde_json::Value,
    },
    /// A trial ended.
    End {
        /// Its name.
        trial: String,
        /// How it ended.
        outcome: Outcome,
        /// How long it took, in milliseconds of the guest's clock.
        millis: u64,
    },
    /// A script wrote something.
    Output {
        /// What it wrote: any part of it, as it came.
        text: String,
    },
    /// A script ended.
    Exit {
        /// Its exit code; 128 and the signal's number when a signal ended it.
        code: i32,
    },
    /// The guest cannot go on in this boot: what the last trial left cannot be cleaned up.
    Spoilt {
        /// What is in the way.
        reason: String,
    },
    /// The guest itself failed.
    Fatal {
        /// Why.
        message: String,
    },
    /// Everything is done; the machine powers off.
    Done,
}

/// How a trial ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// As expected.
    Passed,
    /// Not as expected.
    Failed {
        /// The error and what the trial wrote.
        message: String,
    },
    /// The kernel lacks what the trial is about.
    Skipped {
        /// What is missing.
        reason: String,
    },
}

/// A trial, as `touchmark-vm-guest --list` prints it (one JSON object a line).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialInfo {
    /// `module::name`.
    pub name: String,
    /// Whether it measures (and reports data) instead of testing.
    pub bench: bool,
    /// How long it may take, in seconds of the guest's clock.
    pub deadline: u64,
}
