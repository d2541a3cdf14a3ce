// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be known before a program starts: whether a lock can hold, and what it will meet.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use touchmark_sys::capability;

use super::policy::Policy;
use super::reason;

/// The program as `execvp` will find it, and through `#!` what will really run; `None` leaves it to `execvp` to say why.
pub(super) fn locate(program: &OsStr) -> Option<PathBuf> {
    let mut path = search(program)?;
    // The kernel follows five scripts, then gives up.
    for _ in 0..5 {
        match interpreter(&path) {
            Some(next) => path = next,
            None => return Some(path),
        }
    }
    Some(path)
}

/// Raises the limit as far as this process may: to none with the right to, else to the hard limit. The limit that is
/// then in force; `None` if there is none, or this process may exceed it.
pub(super) fn raise_limit() -> Option<u64> {
    if capability::has(capability::SYS_RESOURCE) {
        // The program may give up its privileges later, and must then still be allowed to map memory.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
    }
    let limit = getrlimit(Resource::Memlock);
    let _ = setrlimit(Resource::Memlock, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Memlock).current.filter(|_| !capability::has(capability::IPC_LOCK))
}

/// Whether exec would give this process privileges that a traced process does not get.
pub(super) fn elevation_is_lost() -> bool {
    !capability::has(capability::SYS_PTRACE) && !capability::no_new_privileges()
}

/// Why a program cannot be locked, as far as that is known.
pub(super) fn obstacle(path: &Path, policy: Policy, compat: bool, limit: Option<u64>) -> Option<String> {
    if elevation_is_lost() && is_privileged(path) {
        return Some(
            "it is setuid, setgid or has file capabilities, and would not get its privileges, because it is locked from \
             outside by a process that has none itself; run memlock as root"
                .to_owned(),
        );
    }
    if limit == Some(0) {
        return Some(reason::no_limit_left());
    }
    let name = path.file_name()?.to_string_lossy().into_owned();
    if !compat && ["node", "nodejs"].contains(&name.as_str()) {
        return Some(
            "V8 ends itself when it cannot discard memory (madvise MADV_DONTNEED), which the kernel refuses for locked \
             memory; --compat lets it"
                .to_owned(),
        );
    }
    let limit = limit.filter(|_| policy != Policy::Current)?;
    if name == "java" {
        return Some(reason::too_large("the Java virtual machine", limit));
    }
    is_go(path).then(|| reason::too_large("the Go runtime", limit))
}

/// As the shell does: a name without a slash is looked for in `PATH`.
fn search(program: &OsStr) -> Option<PathBuf> {
    let executable = |path: &Path| {
        let file = |file: Metadata| file.is_file() && file.permissions().mode() & 0o111 != 0;
        path.metadata().is_ok_and(file)
    };
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|path| executable(path)).and_then(|path| path.canonicalize().ok());
    }
    let paths = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut candidates = std::env::split_paths(&paths).map(|folder| folder.join(program));
    candidates.find(|path| executable(path)).and_then(|path| path.canonicalize().ok())
}

fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut head = [0; 256];
    let length = File::open(path).ok()?.read_at(&mut head, 0).ok()?;
    let line = head[..length].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let first = Path::new(OsStr::from_bytes(words.next()?));
    // `#!/usr/bin/env node`: what counts is the second word.
    if first.file_name() == Some(OsStr::new("env")) {
        if let Some(found) = words.find(|word| !word.starts_with(b"-")).and_then(|word| search(OsStr::from_bytes(word)))
        {
            return Some(found);
        }
    }
    first.canonicalize().ok()
}

/// Whether a program's work is to start others, or to become another.
pub(super) fn starts_others(path: &Path) -> bool {
    const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "fish"];
    const WRAPPERS: [&str; 16] = [
        "chroot", "chrt", "env", "ionice", "nice", "nohup", "numactl", "prlimit", "runuser", "setpriv", "setsid",
        "stdbuf", "su", "sudo", "taskset", "timeout",
    ];
    let name = path.file_name().unwrap_or_default();
    SHELLS.iter().chain(&WRAPPERS).any(|known| name == *known)
}

fn is_privileged(path: &Path) -> bool {
    let set_id = |mode: u32| mode & 0o4000 != 0 || mode & 0o2010 == 0o2010;
    path.metadata().is_ok_and(|file| set_id(file.mode()))
        || rustix::fs::getxattr(path, "security.capability", &mut [0; 64][..]).is_ok()
}

/// The Go linker names its build's note in a note segment near the start of the file.
fn is_go(path: &Path) -> bool {
    let mut head = [0; 4096];
    let Ok(length) = File::open(path).and_then(|file| file.read_at(&mut head, 0)) else { return false };
    // The note: name size 4, "Go\0\0" behind size and type (4, the build id).
    let note = b"\x04\0\0\0Go\0\0";
    head[..length].starts_with(b"\x7fELF") && head[..length].windows(note.len()).any(|window| window == note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_execvp_finds_them() {
        let shell = locate(OsStr::new("sh")).expect("a shell");
        assert!(shell.is_absolute() && shell.exists());
        assert_eq!(locate(OsStr::new("/bin/sh")), Some(shell));
        assert_eq!(locate(OsStr::new("no-program-has-this-name")), None);
        assert_eq!(locate(OsStr::new("/etc/passwd")), None, "not executable");
    }

    #[test]
    fn a_script_is_its_interpreter() {
        let folder = tempfile::tempdir().expect("folder");
        let script = folder.path().join("script");
        let shell = locate(OsStr::new("sh")).expect("a shell");
        for head in ["#!/bin/sh -e\n", "#! /usr/bin/env -S sh\n", "#!/usr/bin/env sh"] {
            std::fs::write(&script, head).expect("write");
            std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("mode");
            assert_eq!(locate(script.as_os_str()), Some(shell.clone()), "{head}");
        }
        // A script that is its own interpreter ends the search.
        std::fs::write(&script, format!("#!{}\n", script.display())).expect("write");
        assert!(locate(script.as_os_str()).is_some());
    }

    #[test]
    fn a_limit_of_nothing_is_an_obstacle() {
        let shell = locate(OsStr::new("sh")).expect("a shell");
        assert_eq!(obstacle(&shell, Policy::OnFault, false, None), None);
        assert!(obstacle(&shell, Policy::OnFault, false, Some(0)).is_some_and(|why| why.contains("LimitMEMLOCK=")));
        assert!(
            obstacle(Path::new("/usr/bin/node"), Policy::OnFault, false, None).is_some_and(|why| why.contains("V8"))
        );
        assert!(
            obstacle(Path::new("/x/java"), Policy::OnFault, false, Some(8 << 20))
                .is_some_and(|why| why.contains("8 MiB"))
        );
    }
}
