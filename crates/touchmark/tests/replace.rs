// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signing replaces files: all that belongs to them stays, and no name ever holds half a file.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Workshop, code, command, expect_code, objects, run, skip, stderr, text, touchmark, word};
use rustix::fs::XattrFlags;

fn value(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 4096];
    let length = rustix::fs::getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Succeeds only if the tool is there and does it.
fn done(program: &str, arguments: &[&str]) -> bool {
    run(program, arguments).is_some_and(|output| output.status.success())
}

#[test]
fn what_belongs_to_a_file_stays() {
    let workshop = Workshop::new();
    let program = workshop.copy("/bin/true", "true");
    rustix::fs::setxattr(&program, "user.mine", b"kept", XattrFlags::empty()).unwrap();
    rustix::fs::setxattr(&program, "user.large", &vec![b'x'; 2000], XattrFlags::empty()).unwrap();
    let mut watched = vec!["user.mine", "user.large"];
    if is_root() {
        std::os::unix::fs::chown(&program, Some(1234), Some(4321)).unwrap();
        if done("setcap", &["cap_net_raw+ep", text(&program)]) {
            watched.push("security.capability");
        } else {
            skip("capabilities: setcap is not installed");
        }
        if done("setfacl", &["-m", "u:4711:r-x", text(&program)]) {
            watched.push("system.posix_acl_access");
        } else {
            skip("access lists: setfacl is not installed");
        }
    } else {
        skip("owner and capabilities: only root can change them");
    }
    let caps = value(&program, "security.capability");
    // Set-user-ID goes with a change of owner, and so do capabilities with a change of mode's owner: last, as in life.
    fs::set_permissions(&program, PermissionsExt::from_mode(0o4751)).unwrap();
    if let Some(caps) = caps {
        rustix::fs::setxattr(&program, "security.capability", &caps, XattrFlags::empty()).unwrap();
    }
    assert!(done("touch", &["-a", "-d", "2001-02-03 04:05:06.123456789", text(&program)]));
    assert!(done("touch", &["-m", "-d", "2002-03-04 05:06:07.987654321", text(&program)]));
    let seen = |path: &Path| {
        let data = fs::metadata(path).unwrap();
        let numbers = [
            i64::from(data.uid()),
            i64::from(data.gid()),
            i64::from(data.mode()),
            data.atime(),
            data.atime_nsec(),
            data.mtime(),
            data.mtime_nsec(),
        ];
        (numbers, watched.iter().map(|name| value(path, name)).collect::<Vec<_>>())
    };
    let before = seen(&program);
    assert!(before.1.iter().all(Option::is_some), "{watched:?}");
    let inode = fs::metadata(&program).unwrap().ino();
    expect_code(&workshop.sign([&program]), 0);
    assert_ne!(fs::metadata(&program).unwrap().ino(), inode, "a new file took its place");
    assert_eq!(seen(&program), before, "{watched:?}");
    expect_code(&touchmark(["unsign", text(&program)]), 0);
    assert_eq!(seen(&program), before, "{watched:?}");
    assert_eq!(workshop.names(), ["true"]);
}

#[test]
fn a_default_access_list_is_not_inherited() {
    let workshop = Workshop::new();
    let program = workshop.copy("/bin/true", "true");
    if !done("setfacl", &["-d", "-m", "u:4711:rwx", text(&workshop.path("tree"))]) {
        return skip("default access lists: setfacl is not installed, or the file system has none");
    }
    let mode = fs::metadata(&program).unwrap().mode();
    expect_code(&workshop.sign([&program]), 0);
    assert_eq!(value(&program, "system.posix_acl_access"), None);
    assert_eq!(fs::metadata(&program).unwrap().mode(), mode);
}

#[test]
fn hard_links_stay_together() {
    let workshop = Workshop::new();
    let first = workshop.copy("/bin/true", "a/first");
    fs::create_dir(workshop.tree("b")).unwrap();
    let others = ["a/second", "b/third"].map(|name| workshop.tree(name));
    others.iter().for_each(|other| fs::hard_link(&first, other).unwrap());
    let lone = workshop.copy("/bin/true", "z");
    let tree = workshop.path("tree");
    let original = fs::read(&first).unwrap();
    let together = || {
        let inode = fs::metadata(&first).unwrap().ino();
        others.iter().all(|other| fs::metadata(other).unwrap().ino() == inode)
    };

    let signed = workshop.sign(["-r", "--json", "--container=embedded,xattr,detached", text(&tree)]);
    expect_code(&signed, 0);
    let order: Vec<_> =
        objects(&signed).iter().map(|object| word(object, "path")[text(&tree).len() + 1..].to_owned()).collect();
    assert_eq!(order, ["z", "a/first", "a/second", "b/third"]);
    assert!(together());
    for path in others.iter().chain([&first, &lone]) {
        assert_eq!(workshop.status(path), "valid");
    }
    expect_code(&touchmark(["unsign", "-r", text(&tree)]), 0);
    assert!(together());
    assert_eq!(fs::read(&others[1]).unwrap(), original);
    assert!(!workshop.tree("b/third.touchmark").exists());
}

#[test]
fn links_outside_of_the_run_are_not_torn_off() {
    let workshop = Workshop::new();
    let program = workshop.copy("/bin/true", "true");
    for name in ["one", "two"] {
        fs::hard_link(&program, workshop.path(name)).unwrap();
    }
    let original = fs::read(&program).unwrap();
    let refused = workshop.sign(["--container=embedded", text(&program)]);
    expect_code(&refused, 1);
    assert!(stderr(&refused).contains("has 2 more name(s) (hard links)"), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("--container xattr"), "{}", stderr(&refused));
    assert_eq!(fs::read(&program).unwrap(), original);
    expect_code(&workshop.sign(["--container=xattr", text(&program)]), 0);
    assert_eq!(workshop.status(&workshop.path("two")), "valid");
    assert_eq!(fs::metadata(&program).unwrap().nlink(), 3);
}

/// Many programs in the tree, and the only contents that their names may ever have.
fn many(workshop: &Workshop, number: usize) -> (Vec<PathBuf>, Vec<u8>) {
    let original = fs::read("/bin/ls").unwrap();
    let paths = (0..number).map(|index| workshop.write(format!("{index:03}"), &original)).collect();
    (paths, original)
}

#[test]
fn killed_at_any_instant_every_name_holds_a_whole_file() {
    let workshop = Workshop::with_key("rsa2048");
    let (paths, original) = many(&workshop, 60);
    let tree = workshop.path("tree");
    let arguments = workshop.sign_arguments(["--jobs", "3", "-r", text(&tree)]);
    // RSA signatures do not vary: there is one signed form.
    let began = Instant::now();
    expect_code(&workshop.sign(["-r", text(&tree)]), 0);
    let whole_run = began.elapsed();
    let signed = fs::read(&paths[0]).unwrap();
    expect_code(&touchmark(["unsign", "-r", text(&tree)]), 0);

    let (mut killed, mut left, mut mixed) = (0, 0, 0);
    for round in 0..24_u32 {
        let mut child = command(&arguments).stderr(Stdio::null()).spawn().unwrap();
        // From the first instant to past the end.
        let patience = whole_run * round / 20;
        let end = Instant::now() + patience;
        while Instant::now() < end && child.try_wait().unwrap().is_none() {
            thread::yield_now();
        }
        let _ = child.kill();
        killed += usize::from(child.wait().unwrap().signal() == Some(9));
        let mut forms = HashSet::new();
        for path in &paths {
            let now = fs::read(path).unwrap();
            assert!(now == original || now == signed, "round {round}: {} holds {} bytes", path.display(), now.len());
            forms.insert(now.len());
        }
        mixed += usize::from(forms.len() == 2);
        left += workshop.names().len() - paths.len();
        if round % 4 == 3 {
            expect_code(&touchmark(["unsign", "-r", text(&tree)]), 0);
            assert_eq!(workshop.names().len(), paths.len(), "leftovers are removed");
        }
    }
    eprintln!(
        "{killed} of 24 runs were killed; {mixed} left signed and unsigned files; {left} temporary files were seen"
    );
    assert!(killed > 5, "{killed}");
    expect_code(&workshop.sign(["-r", text(&tree)]), 0);
    assert!(paths.iter().all(|path| fs::read(path).unwrap() == signed));
    assert_eq!(workshop.names().len(), paths.len());
}

#[test]
fn leftovers_are_removed_for_named_files_too_and_files_in_use_are_not() {
    let workshop = Workshop::new();
    let (paths, _) = many(&workshop, 40);
    let tree = workshop.path("tree");
    let arguments = workshop.sign_arguments(["-r", text(&tree)]);
    let mut rounds = 0;
    while workshop.names().len() == paths.len() {
        let mut child = command(&arguments).stderr(Stdio::null()).spawn().unwrap();
        while workshop.names().len() == paths.len() && child.try_wait().unwrap().is_none() {}
        let _ = child.kill();
        child.wait().unwrap();
        rounds += 1;
        assert!(rounds < 50, "no run left a temporary file");
    }
    let other = workshop.write(".x.touchmark-0123456789abcdef", "only looks like one");
    expect_code(&workshop.sign([&paths[0]]), 0);
    assert_eq!(workshop.names().len(), paths.len() + 1);
    assert!(other.exists());
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let workshop = Workshop::with_key("rsa4096");
    let (paths, original) = many(&workshop, 200);
    let tree = workshop.path("tree");
    let arguments = workshop.sign_arguments(["--jobs", "2", "-r", text(&tree)]);
    let child = command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    while workshop.names().len() == paths.len() {}
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output: Output = child.wait_with_output().unwrap();
    expect_code(&output, 3);
    assert!(stderr(&output).contains("interrupted; every path holds"), "{}", stderr(&output));
    assert_eq!(workshop.names().len(), paths.len());
    let old = paths.iter().filter(|path| fs::read(path).unwrap() == original).count();
    let valid =
        workshop.verify(["-r", text(&tree)]).1.iter().filter(|object| word(object, "status") == "valid").count();
    assert_eq!(old + valid, paths.len());
}

#[test]
fn a_file_that_others_replace_meanwhile_is_never_mixed_up() {
    let workshop = Workshop::new();
    let path = workshop.tree("f");
    let contents = ["/bin/true", "/bin/ls"].map(|source| fs::read(source).unwrap());
    fs::write(&path, &contents[0]).unwrap();
    let stop = AtomicBool::new(false);
    let (mut signed, mut refused) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Outside of the tree that is looked at, on the same file system.
            let fresh = workshop.path("fresh");
            for (content, pause) in contents.iter().cycle().zip((0..60).step_by(7).cycle()) {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                fs::write(&fresh, content).unwrap();
                fs::rename(&fresh, &path).unwrap();
                thread::sleep(Duration::from_millis(pause));
            }
        });
        for _ in 0..40 {
            let output = workshop.sign([&path]);
            match code(&output) {
                0 => signed += 1,
                1 => {
                    let said = stderr(&output);
                    assert!(
                        said.contains("changed or replaced during the run") || said.contains("No such file"),
                        "{said}"
                    );
                    refused += 1;
                }
                other => panic!("{other}: {}", stderr(&output)),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    eprintln!("{signed} signed, {refused} refused");
    expect_code(&touchmark(["unsign", text(&path)]), 0);
    let now = fs::read(&path).unwrap();
    assert!(contents.contains(&now), "{} bytes", now.len());
    assert_eq!(workshop.names(), ["f"]);
}

#[test]
fn what_cannot_be_replaced_is_named_and_the_rest_goes_on() {
    let workshop = Workshop::new();
    let [frozen, free] = ["a", "b"].map(|name| workshop.copy("/bin/true", name));
    if !is_root() || !done("chattr", &["+i", text(&frozen)]) {
        return skip("immutable files: that needs root, chattr and a file system that has them");
    }
    let output = workshop.sign([&frozen, &free]);
    let thawed = done("chattr", &["-i", text(&frozen)]);
    expect_code(&output, 1);
    assert!(thawed && stderr(&output).contains("embedded: the file is immutable (chattr -i"), "{}", stderr(&output));
    assert_eq!((workshop.status(&frozen), workshop.status(&free)), ("unsigned".into(), "valid".into()));
}

/// Runs a shell script as root in a mount namespace of its own; `None` if that cannot be done here.
fn in_namespace(workshop: &Workshop, script: &str) -> Option<Output> {
    let touchmark = env!("CARGO_BIN_EXE_touchmark");
    let sign =
        format!("'{touchmark}' sign --key '{0}/keys/key.pem' --cert '{0}/keys/cert.pem'", text(&workshop.path("")));
    let script =
        format!("mount --make-rprivate / && cd '{}' && {}", text(&workshop.path("")), script.replace("SIGN", &sign));
    done("unshare", &["-m", "true"]).then(|| run("unshare", &["-m", "sh", "-c", &script]).unwrap())
}

#[test]
fn a_file_system_without_attributes_still_takes_the_embedded_signature() {
    let workshop = Workshop::new();
    let script =
        "mount -t ramfs none tree || exit 99; cp /bin/true tree/t; SIGN tree/t; code=$?; cp tree/t copy; exit $code";
    let Some(output) = in_namespace(&workshop, script).filter(|output| output.status.code() != Some(99)) else {
        return skip("a file system without attributes: cannot mount one here");
    };
    expect_code(&output, 1);
    assert!(stderr(&output).contains("xattr: the file system stores no user.* attributes"), "{}", stderr(&output));
    let (_, found) = workshop.verify([workshop.path("copy")]);
    assert_eq!((word(&found[0], "status"), word(&found[0], "container")), ("valid".into(), "embedded".into()));
}

#[test]
fn a_full_or_read_only_disk_is_named_and_nothing_is_lost() {
    let workshop = Workshop::new();
    let script = "mount -t tmpfs -o size=4m none tree || exit 99
        head -c 3000000 /dev/zero > tree/filler; cp /bin/true tree/a; cp /bin/ls tree/ls; cp tree/ls tree/ls2
        head -c 4000000 /dev/zero > tree/more 2>/dev/null
        SIGN --container=embedded tree/ls tree/ls2; code=$?
        cmp tree/ls /bin/ls && cmp tree/ls2 /bin/ls || exit 98
        ls -A tree | grep -q touchmark- && exit 97
        mount -o remount,ro tree; SIGN --container=embedded tree/a; [ $? = 1 ] || exit 96
        exit $code";
    let Some(output) = in_namespace(&workshop, script).filter(|output| output.status.code() != Some(99)) else {
        return skip("a full disk: cannot mount one here");
    };
    expect_code(&output, 1);
    let said = stderr(&output);
    assert!(said.contains("tree/ls2: cannot write: No space left on device"), "{said}");
    assert!(said.contains("tree/a: cannot make a temporary file: Read-only file system"), "{said}");
}
