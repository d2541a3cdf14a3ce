// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark sign`, `unsign`, `inspect` and `extract` on real files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Workshop, code, command, expect_code, objects, run, skip, smallest_elf, stderr, text, touchmark, word};

fn libc() -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .find_map(|line| Some(PathBuf::from(line.split_whitespace().nth(5).filter(|path| path.contains("libc.so"))?)))
}

#[test]
fn programs_and_scripts_are_signed_run_and_come_back_byte_for_byte() {
    let workshop = Workshop::with_key("rsa2048");
    let program = workshop.copy("/bin/true", "true");
    let script = workshop.write("script", "#!/bin/sh\n");
    let before = (fs::read(&program).unwrap(), fs::read(&script).unwrap());
    let signed = workshop.sign(["--json", text(&program), text(&script)]);
    expect_code(&signed, 0);
    let found: Vec<_> = objects(&signed).iter().map(|object| object["containers"].to_string()).collect();
    assert_eq!(found, [r#"["embedded","xattr"]"#, r#"["xattr"]"#]);
    assert!(stderr(&signed).contains("2 files: 2 signed"), "{}", stderr(&signed));
    assert!(Command::new(&program).status().unwrap().success());
    assert_ne!(fs::read(&program).unwrap(), before.0);
    assert_eq!(fs::read(&script).unwrap(), before.1);

    let once = fs::read(&program).unwrap();
    expect_code(&workshop.sign([&program]), 0);
    assert!(fs::read(&program).unwrap() == once, "signing again replaces, and RSA signatures do not vary");
    assert_eq!(workshop.status(&program), "valid");

    expect_code(&touchmark(["unsign", text(&program), text(&script)]), 0);
    assert_eq!((fs::read(&program).unwrap(), fs::read(&script).unwrap()), before);
    for path in [&program, &script] {
        assert_eq!(workshop.status(path), "unsigned");
    }
    let again = touchmark(["unsign", "--json", text(&program)]);
    assert_eq!((code(&again), word(&objects(&again)[0], "status")), (0, "unchanged".to_owned()));
}

#[test]
fn a_sample_of_the_system_signs_verifies_and_comes_back() {
    let workshop = Workshop::new();
    let mut names = Vec::new();
    let folders = ["/usr/bin", "/usr/sbin", "/usr/lib/x86_64-linux-gnu", "/usr/lib/gcc/x86_64-linux-gnu/12"];
    for folder in folders {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries
            .filter(|entry| entry.metadata().is_ok_and(|data| data.is_file() && data.len() < 2_000_000))
            .map(|entry| entry.path())
            .collect();
        paths.sort();
        for path in paths.into_iter().step_by(9).take(60) {
            let name = format!("{:03}-{}", names.len(), path.file_name().unwrap().to_string_lossy());
            if fs::copy(&path, workshop.tree(&name)).is_ok() {
                names.push((name, path));
            }
        }
    }
    names.extend(libc().map(|path| {
        fs::copy(&path, workshop.tree("libc")).unwrap();
        ("libc".to_owned(), path)
    }));
    assert!(names.len() > 50, "{} files", names.len());
    let tree = workshop.path("tree");
    expect_code(&workshop.sign(["-r", text(&tree)]), 0);
    let (verified, lines) = workshop.verify(["-r", text(&tree)]);
    assert_eq!((verified, lines.len()), (0, names.len()));
    expect_code(&touchmark(["unsign", "-r", text(&tree)]), 0);
    for (name, source) in names {
        assert!(fs::read(workshop.tree(&name)).unwrap() == fs::read(&source).unwrap(), "{}", source.display());
    }
}

#[test]
fn containers_by_choice() {
    let workshop = Workshop::new();
    let program = workshop.copy("/bin/true", "true");
    let detached = workshop.tree("true.touchmark");
    let all = "--container=embedded,xattr,detached";
    expect_code(&workshop.sign([all, text(&program)]), 0);
    let (_, found) = workshop.verify([&program]);
    assert_eq!(word(&found[0], "container"), "embedded,xattr,detached");
    assert!(detached.exists());
    // What speaks of the old bytes does not stay behind.
    expect_code(&workshop.sign(["--container=embedded", text(&program)]), 0);
    let (_, found) = workshop.verify([&program]);
    assert_eq!((word(&found[0], "status"), word(&found[0], "container")), ("valid".into(), "embedded".into()));
    assert!(!detached.exists());
    expect_code(&workshop.sign(["--container=detached", text(&program)]), 0);
    expect_code(&touchmark(["unsign", "--container=detached", text(&program)]), 0);
    let (_, found) = workshop.verify([&program]);
    assert_eq!(word(&found[0], "container"), "embedded");

    let script = workshop.write("script", "#!/bin/sh\n");
    let refused = workshop.sign(["--container=embedded", text(&script)]);
    expect_code(&refused, 1);
    assert!(stderr(&refused).contains("embedded: expected an ELF file"), "{}", stderr(&refused));
    assert_eq!(workshop.status(&script), "unsigned");
}

/// A module is an ELF file with a signature behind it, which the kernel finds by the last 28 bytes.
#[test]
fn a_kernel_modules_own_signature_stays_at_its_end() {
    let workshop = Workshop::new();
    let content = [&smallest_elf()[..], b"PKCS#7", &[0; 12], b"~Module signature appended~\n"].concat();
    let module = workshop.write("module.ko", &content);
    let dry = workshop.sign(["--dry-run", text(&module)]);
    assert!(String::from_utf8_lossy(&dry.stdout).contains("would-sign: xattr\n"), "{dry:?}");
    let signed = workshop.sign(["--json", text(&module)]);
    expect_code(&signed, 0);
    assert_eq!(objects(&signed)[0]["containers"].to_string(), r#"["xattr"]"#);
    assert!(stderr(&signed).contains("1 kernel modules, not inside"), "{}", stderr(&signed));
    assert_eq!(fs::read(&module).unwrap(), content);
    assert_eq!(workshop.status(&module), "valid");

    let refused = workshop.sign(["--container=embedded", text(&module)]);
    expect_code(&refused, 1);
    assert!(stderr(&refused).contains("--container xattr or detached keeps it"), "{}", stderr(&refused));
    assert_eq!(fs::read(&module).unwrap(), content);
    // One that the kernel's build did not sign is like any other ELF file.
    let unsigned = workshop.write("unsigned.ko", smallest_elf());
    let signed = workshop.sign(["--json", text(&unsigned)]);
    assert_eq!(objects(&signed)[0]["containers"].to_string(), r#"["embedded","xattr"]"#);
    assert!(!stderr(&signed).contains("kernel modules"), "{}", stderr(&signed));
}

#[test]
fn a_file_beside_that_is_no_signature_is_left_alone() {
    let workshop = Workshop::new();
    let program = workshop.copy("/bin/true", "true");
    let other = workshop.write("true.touchmark", "my notes");
    expect_code(&workshop.sign([&program]), 0);
    let unsigned = touchmark(["unsign", "--container=xattr,detached", text(&program)]);
    expect_code(&unsigned, 1);
    assert!(stderr(&unsigned).contains("found something else; left alone"), "{}", stderr(&unsigned));
    assert_eq!(fs::read(&other).unwrap(), b"my notes");
}

#[test]
fn nothing_is_done_in_a_dry_run() {
    let workshop = Workshop::new();
    workshop.copy("/bin/true", "true");
    workshop.write("script", "#!/bin/sh\n");
    let tree = workshop.path("tree");
    let before = fs::read(workshop.tree("true")).unwrap();
    let dry = workshop.sign(["--dry-run", "-r", text(&tree)]);
    expect_code(&dry, 0);
    let said = String::from_utf8_lossy(&dry.stdout).into_owned();
    assert!(said.contains("true: would-sign: embedded, xattr") && said.contains("script: would-sign: xattr"), "{said}");
    assert_eq!(fs::read(workshop.tree("true")).unwrap(), before);
    let (_, found) = workshop.verify(["-r", text(&tree)]);
    assert!(found.iter().all(|object| word(object, "status") == "unsigned"), "{found:?}");
}

#[test]
fn what_is_excluded_stays_unsigned() {
    let workshop = Workshop::new();
    for name in ["a/x.py", "a/x", "b/x", "b/c/x"] {
        workshop.copy("/bin/true", name);
    }
    let tree = workshop.path("tree");
    expect_code(&workshop.sign(["-r", "--exclude", "*.py", "--exclude", "**/b/c", text(&tree)]), 0);
    let (_, found) = workshop.verify(["-r", text(&tree)]);
    let statuses: Vec<_> = found
        .iter()
        .map(|object| (word(object, "path")[text(&tree).len() + 1..].to_owned(), word(object, "status")))
        .collect();
    let expected = [("a/x", "valid"), ("a/x.py", "unsigned"), ("b/c/x", "unsigned"), ("b/x", "valid")];
    assert_eq!(statuses, expected.map(|(path, status)| (path.to_owned(), status.to_owned())));
    let wrong = workshop.sign(["--exclude", "[", text(&tree)]);
    expect_code(&wrong, 2);
    assert!(stderr(&wrong).contains("--exclude"), "{}", stderr(&wrong));
}

#[test]
fn the_order_does_not_depend_on_the_number_of_jobs() {
    let workshop = Workshop::new();
    for number in 0..300 {
        workshop.write(format!("{number:03}"), vec![b'x'; (number * 7919) % 5000]);
    }
    let tree = workshop.path("tree");
    let listed = |jobs: &str| {
        let output = workshop.sign(["--json", "-r", "--jobs", jobs, text(&tree)]);
        expect_code(&output, 0);
        objects(&output).iter().map(|object| word(object, "path")).collect::<Vec<_>>()
    };
    let one = listed("1");
    assert_eq!(one.len(), 300);
    assert!(one.is_sorted());
    assert_eq!(listed("7"), one);
}

#[test]
fn usage_errors_are_told_apart() {
    let workshop = Workshop::new();
    let folder = workshop.path("tree");
    let no_recursion = workshop.sign([&folder]);
    expect_code(&no_recursion, 1);
    assert!(stderr(&no_recursion).contains("is a directory (-r goes into it)"), "{}", stderr(&no_recursion));
    let absent = workshop.sign([workshop.tree("absent")]);
    expect_code(&absent, 1);
    assert!(stderr(&absent).contains("No such file"), "{}", stderr(&absent));
    expect_code(&touchmark(["sign", "x"]), 2);
    expect_code(&touchmark(["verify", "x"]), 2);
}

#[test]
fn a_running_program_can_be_signed() {
    let workshop = Workshop::new();
    let program = workshop.copy("/bin/sleep", "sleep");
    let mut child = Command::new(&program).arg("60").spawn().unwrap();
    expect_code(&workshop.sign([&program]), 0);
    expect_code(&touchmark(["unsign", text(&program)]), 0);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn openssl_verifies_every_container() {
    let workshop = Workshop::with_key("rsa2048");
    let program = workshop.write("small", smallest_elf());
    expect_code(&workshop.sign(["--container=embedded,xattr,detached", text(&program)]), 0);
    let (der, statement) = (workshop.path("der"), workshop.path("statement"));
    let cert = workshop.path("keys/cert.pem");
    for container in ["embedded", "xattr", "detached"] {
        let extract = |more: &[&str], out: &Path| {
            let all = [&["extract", "--container", container, "--out", text(out)], more, &[text(&program)]].concat();
            expect_code(&touchmark(all), 0);
        };
        extract(&[], &der);
        extract(&["--statement"], &statement);
        let verify = [
            "cms",
            "-verify",
            "-binary",
            "-inform",
            "DER",
            "-in",
            text(&der),
            "-content",
            text(&statement),
            "-certfile",
            text(&cert),
            "-nointern",
            "-noverify",
            "-out",
            "/dev/null",
        ];
        let Some(verified) = run("openssl", &verify) else { return skip("openssl verifies: it is not installed") };
        assert!(verified.status.success(), "{container}: {verified:?}");
        // One byte of the statement changed: the same command must say no.
        let mut changed = fs::read(&statement).unwrap();
        changed[20] ^= 1;
        fs::write(&statement, changed).unwrap();
        assert!(!run("openssl", &verify).unwrap().status.success(), "{container}");
    }
    let inspected = touchmark(["inspect", "--json", text(&program)]);
    expect_code(&inspected, 0);
    let kinds: Vec<_> =
        objects(&inspected)[0]["signatures"].as_array().unwrap().iter().map(|line| word(line, "kind")).collect();
    assert_eq!(kinds, ["elf-content", "file", "file"]);
    let absent = touchmark(["extract", "--container", "embedded", text(&workshop.write("f", "text"))]);
    expect_code(&absent, 1);
}

#[test]
fn pages_and_completions_are_written() {
    let workshop = Workshop::new();
    expect_code(&command(["generate", text(&workshop.path("out"))]).output().unwrap(), 0);
    let page = fs::read_to_string(workshop.path("out/man/touchmark-sign.1")).unwrap();
    assert!(page.contains("passphrase"), "{page}");
    assert!(workshop.path("out/completions/touchmark.bash").exists());
}
