// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trees and files made to do harm: no panic, no hang, no lack of memory; each thing is named or left alone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use common::{Workshop, code, expect_code, objects, run, skip, smallest_elf, stderr, text, touchmark, word};
use rustix::fs::{CWD, Mode};

#[test]
fn a_hostile_tree() {
    let workshop = Workshop::new();
    let program = workshop.copy("/bin/true", "d/true");
    rustix::fs::mkfifoat(CWD, workshop.tree("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
    let _socket = UnixListener::bind(workshop.tree("socket")).unwrap();
    symlink(".", workshop.tree("loop")).unwrap();
    symlink("selfish", workshop.tree("selfish")).unwrap();
    symlink("/nowhere", workshop.tree("dangling")).unwrap();
    symlink("/dev/zero", workshop.tree("endless")).unwrap();
    symlink("/proc", workshop.tree("proc")).unwrap();
    workshop.write("empty", "");
    workshop.write(OsStr::from_bytes(b"odd\xff\n"), "text");
    workshop.write("a".repeat(255), "text");
    // A detached signature that is not one, is a folder, is a FIFO.
    workshop.write("x", "text");
    fs::create_dir(workshop.tree("x.touchmark")).unwrap();
    workshop.write("y", "text");
    rustix::fs::mkfifoat(CWD, workshop.tree("y.touchmark"), Mode::RUSR | Mode::WUSR).unwrap();
    let tree = workshop.path("tree");

    let began = Instant::now();
    let signed = workshop.sign(["-r", "--json", text(&tree)]);
    expect_code(&signed, 0);
    let count = |status: &str| objects(&signed).iter().filter(|object| word(object, "status") == status).count();
    assert_eq!((count("signed"), count("skipped")), (6, 3), "{:?}", objects(&signed));
    let (verified, found) = workshop.verify(["-r", text(&tree)]);
    assert_eq!((verified, found.len()), (1, 6));
    let bad: Vec<_> = found.iter().filter(|object| word(object, "status") != "valid").collect();
    assert_eq!(bad.len(), 2, "{bad:?}");
    assert!(
        word(bad[0], "reason")
            .contains("detached: cannot read the signature: expected a regular file, found a directory")
    );
    assert!(word(bad[1], "reason").contains("found a FIFO"));
    assert_eq!(workshop.status(&program), "valid");
    assert!(began.elapsed() < Duration::from_secs(20));

    for (name, reason) in [
        ("fifo", "expected a regular file, found a FIFO"),
        ("socket", "expected a regular file, found a socket"),
        ("endless", "expected a regular file, found a character device"),
        ("dangling", "No such file"),
        ("selfish", "symbolic link"),
    ] {
        let (exit, found) = workshop.verify([workshop.tree(name)]);
        assert_eq!((exit, word(&found[0], "status")), (1, "error".to_owned()), "{name}");
        assert!(word(&found[0], "reason").contains(reason), "{found:?}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_the_rest_goes_on() {
    let workshop = Workshop::new();
    let (locked, free) = (workshop.write("a", "text"), workshop.write("b", "text"));
    fs::create_dir(workshop.tree("c")).unwrap();
    for path in [&locked, &workshop.tree("c")] {
        fs::set_permissions(path, PermissionsExt::from_mode(0o000)).unwrap();
    }
    let tree = workshop.path("tree");
    // Root reads all, unless it gives up the right to.
    let arguments = workshop.sign_arguments(["-r", "--json", text(&tree)]);
    let arguments: Vec<_> = arguments.iter().map(|argument| argument.to_str().unwrap()).collect();
    let program = env!("CARGO_BIN_EXE_touchmark");
    let signed = if fs::read(&locked).is_ok() {
        run("setpriv", &[&["--bounding-set", "-dac_override,-dac_read_search", program], &arguments[..]].concat())
    } else {
        run(program, &arguments)
    };
    fs::set_permissions(workshop.tree("c"), PermissionsExt::from_mode(0o700)).unwrap();
    let Some(signed) = signed else { return skip("unreadable files: root reads all, and setpriv is not installed") };
    let found = objects(&signed);
    let statuses: Vec<_> = found.iter().map(|object| word(object, "status")).collect();
    assert_eq!((code(&signed), statuses.as_slice()), (1, &["error", "signed", "error"].map(String::from)[..]));
    assert!(found.iter().step_by(2).all(|object| word(object, "reason").contains("Permission denied")), "{found:?}");
    assert_eq!(workshop.status(&free), "valid");
}

#[test]
fn a_sparse_terabyte_without_signature_takes_no_time() {
    let workshop = Workshop::new();
    let file = fs::File::create(workshop.tree("huge")).unwrap();
    if file.set_len(1 << 40).is_err() {
        return skip("a sparse terabyte: the file system takes none");
    }
    let began = Instant::now();
    assert_eq!(workshop.status(&workshop.tree("huge")), "unsigned");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn elf_files_cut_short_are_refused_or_signed_but_never_harmed() {
    let workshop = Workshop::new();
    let whole = fs::read("/bin/true").unwrap();
    let lengths = (0..200).chain((200..whole.len()).step_by(97));
    for length in lengths {
        workshop.write(format!("{length:06}"), &whole[..length]);
    }
    let tree = workshop.path("tree");
    let signed = workshop.sign(["-r", "--json", text(&tree)]);
    assert!(code(&signed) <= 1, "{}", stderr(&signed));
    let found = objects(&signed);
    assert!(found.iter().any(|object| word(object, "status") == "error"));
    for object in &found {
        // Refused inside, but the attribute takes any file.
        assert!(object["containers"].to_string().contains("xattr"), "{object}");
    }
    let (verified, _) = workshop.verify(["-r", text(&tree)]);
    assert_eq!(verified, 0);
    expect_code(&touchmark(["unsign", "-r", text(&tree)]), 0);
    for name in workshop.names() {
        let length: usize = name.parse().unwrap();
        assert!(fs::read(workshop.tree(&name)).unwrap() == whole[..length], "{name}");
    }
}

#[test]
fn damaged_elf_headers_are_refused_or_signed_but_never_harmed() {
    let workshop = Workshop::new();
    for (base, name) in [(smallest_elf(), "small"), (fs::read("/bin/true").unwrap(), "true")] {
        for at in 4..64 {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = base.clone();
                bytes[at] = value;
                workshop.write(format!("{name}-{at:02}-{value:02x}"), bytes);
            }
        }
    }
    let tree = workshop.path("tree");
    let before: Vec<_> = workshop.names().iter().map(|name| fs::read(workshop.tree(name)).unwrap()).collect();
    let signed = workshop.sign(["-r", text(&tree)]);
    assert!(code(&signed) <= 1, "{}", stderr(&signed));
    assert_eq!(workshop.verify(["-r", text(&tree)]).0, 0);
    expect_code(&touchmark(["unsign", "-r", text(&tree)]), 0);
    for (name, before) in workshop.names().iter().zip(before) {
        assert!(fs::read(workshop.tree(name)).unwrap() == before, "{name}");
    }
}

#[test]
fn a_deep_tree_is_walked_to_its_end() {
    let workshop = Workshop::new();
    let depth = 600;
    let mut here = rustix::fs::open(workshop.path("tree"), rustix::fs::OFlags::DIRECTORY, Mode::empty()).unwrap();
    // Longer than any path may be: made and entered step by step.
    let name = "a-rather-long-name-for-a-folder";
    for _ in 0..depth {
        rustix::fs::mkdirat(&here, name, Mode::RWXU).unwrap();
        here = rustix::fs::openat(&here, name, rustix::fs::OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    rustix::fs::openat(&here, "file", flags, Mode::RUSR | Mode::WUSR).unwrap();
    let tree = workshop.path("tree");
    expect_code(&workshop.sign(["-r", text(&tree)]), 0);
    let (verified, found) = workshop.verify(["-r", text(&tree)]);
    assert_eq!((verified, found.len()), (0, 1));
    assert!(word(&found[0], "path").len() > depth * name.len());
}

#[test]
fn a_name_that_looks_like_ours_hides_nothing_from_verify() {
    let workshop = Workshop::new();
    for name in ["evil.touchmark", ".evil.touchmark-0123456789abcdef", ".hidden"] {
        workshop.copy("/bin/true", name);
    }
    let (exit, found) = workshop.verify(["-r", text(&workshop.path("tree"))]);
    assert_eq!((exit, found.len()), (1, 3));
    assert!(found.iter().all(|object| word(object, "status") == "unsigned"));
}
