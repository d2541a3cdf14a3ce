// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a child used, as it ends (`wait4(2)`).

use std::io;

/// How a child ended, and what it and the descendants that it waited for used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
}

/// Waits for a child of this process.
///
/// # Errors
/// What `wait4` reports: `ECHILD` when there is no such child.
pub fn wait(pid: u32) -> io::Result<Ended> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both arguments are to be filled.
        if unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) } == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: all fields are integers, for which zeros are fine, and the kernel filled them.
    let usage = unsafe { usage.assume_init() };
    Ok(Ended {
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        minor_faults: u64::try_from(usage.ru_minflt).unwrap_or(0),
        major_faults: u64::try_from(usage.ru_majflt).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_child_is_counted() {
        let spawn = |script: &str| std::process::Command::new("sh").args(["-c", script]).spawn().expect("sh").id();
        let ended = super::wait(spawn("exit 9")).expect("wait");
        assert!(ended.code == Some(9) && ended.minor_faults > 0, "{ended:?}");
        assert_eq!(super::wait(spawn("kill -9 $$")).expect("wait").code, None);
        assert!(super::wait(1).is_err(), "no child of ours");
    }
}
