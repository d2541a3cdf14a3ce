// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that compilers and linkers make: objects of every class and byte order, and programs that must still run.

mod common;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use common::{Identity, unsign};
use object::{Object, ObjectSection, ObjectSymbol};
use tempfile::TempDir;

const PROGRAM: &str =
    "#include <stdio.h>\nint shared(int x);\nint main(void) { printf(\"%d\\n\", shared(20)); return 3; }\n";
const LIBRARY: &str = "int shared(int x) { return 2 * x + 2; }\n";
const PLAIN: &str =
    "int value = 7; static int hidden(int x) { return x + value; }\nint shown(int x) { return hidden(x) * 2; }\n";

fn run(folder: &Path, command: &str) -> Output {
    let mut words = command.split_whitespace();
    let program = words.next().expect("a command");
    let mut process = Command::new(program);
    process.args(words).current_dir(folder);
    for _ in 0..100 {
        match process.output() {
            // Another test's child has our file open for writing until it becomes its own program.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => thread::sleep(Duration::from_millis(20)),
            Err(error) => panic!("{command}: {error}"),
            Ok(output) => return output,
        }
    }
    panic!("{command}: the file stays busy");
}

fn run_ok(folder: &Path, command: &str) {
    let output = run(folder, command);
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

fn folder() -> TempDir {
    // Where programs may be executed, which /tmp need not be.
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("folder");
    for (name, text) in [("program.c", PROGRAM), ("library.c", LIBRARY), ("plain.c", PLAIN)] {
        fs::write(folder.path().join(name), text).expect("write");
    }
    folder
}

/// Signs a file where it is; it must come back to the byte.
fn sign_in_place(identity: &Identity, path: &Path) {
    let original = fs::read(path).expect("read");
    let signed = identity.sign(&original).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(identity.verifies(&signed), "{}", path.display());
    assert!(unsign(&signed) == original, "{}", path.display());
    fs::write(path, signed).expect("write");
}

/// Names, each with a size or an address.
type Names = Vec<(String, u64)>;

/// Names and sizes of sections, names and addresses of symbols.
fn contents(file: &[u8]) -> (Names, Names) {
    let parsed = object::File::parse(file).expect("a valid ELF file");
    let sections =
        parsed.sections().map(|section| (section.name().expect("name").to_owned(), section.size())).collect();
    let symbols = parsed.symbols().map(|symbol| (symbol.name().expect("name").to_owned(), symbol.address())).collect();
    (sections, symbols)
}

#[test]
fn objects_of_every_class_and_order_keep_their_names() {
    let (identity, folder) = (Identity::new(), folder());
    let path = folder.path().join("plain.o");
    for target in [
        "x86_64-linux-gnu",
        "i386-linux-gnu",
        "aarch64-linux-gnu",
        "aarch64_be-linux-gnu",
        "armv7-linux-gnueabihf",
        "mips-linux-gnu",
        "powerpc-linux-gnu",
        "powerpc64-linux-gnu",
        "powerpc64le-linux-gnu",
        "riscv64-linux-gnu",
        "s390x-linux-gnu",
    ] {
        run_ok(folder.path(), &format!("clang --target={target} -ffunction-sections -g -c plain.c -o plain.o"));
        let original = fs::read(&path).expect("read");
        let (sections, symbols) = contents(&original);
        // One table for the names of sections and of symbols: that is what makes these files different.
        assert!(!sections.iter().any(|(name, _)| name == ".shstrtab"), "{target}");
        sign_in_place(&identity, &path);
        let (signed_sections, signed_symbols) = contents(&fs::read(&path).expect("read"));
        assert_eq!(signed_symbols, symbols, "{target}");
        assert!(symbols.iter().any(|(name, _)| name == "shown"), "{target}");
        let names = |all: &[(String, u64)]| all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&signed_sections), [&names(&sections)[..], &[".touchmark".to_owned()]].concat(), "{target}");
    }
}

#[test]
fn programs_of_every_kind_run_as_before() {
    let (identity, folder) = (Identity::new(), folder());
    run_ok(folder.path(), "cc -shared -fPIC library.c -o libshared.so");
    for options in
        ["-pie -fPIE", "-no-pie", "-static", "-static-pie", "-s", "-Wl,--hash-style=both -Wl,-z,separate-code"]
    {
        run_ok(folder.path(), &format!("cc {options} program.c library.c -o program"));
        check_that_it_runs(&identity, folder.path(), options);
    }
    run_ok(folder.path(), "cc program.c -L. -lshared -Wl,-rpath,$ORIGIN -o program");
    sign_in_place(&identity, &folder.path().join("libshared.so"));
    check_that_it_runs(&identity, folder.path(), "a signed program with a signed library");
}

#[test]
fn appended_data_and_missing_section_headers_do_not_matter() {
    let (identity, folder) = (Identity::new(), folder());
    let path = folder.path().join("program");
    run_ok(folder.path(), "cc program.c library.c -o program");
    let whole = fs::read(&path).expect("read");
    write_program(&path, &[&whole[..], b"PK an archive that unpacks itself"].concat());
    check_that_it_runs(&identity, folder.path(), "appended data");

    // What `sstrip` does: no section headers in the header, none in the file.
    let table = usize::try_from(u64::from_le_bytes(whole[40..48].try_into().expect("8 bytes"))).expect("small");
    let mut bare = whole[..table].to_vec();
    bare[40..48].fill(0);
    bare[58..64].fill(0);
    write_program(&path, &bare);
    check_that_it_runs(&identity, folder.path(), "no section headers");
}

#[test]
fn linkers_leave_the_signature_of_an_object_out() {
    let (identity, folder) = (Identity::new(), folder());
    for name in ["program", "library"] {
        run_ok(folder.path(), &format!("cc -c {name}.c -o {name}.o"));
        sign_in_place(&identity, &folder.path().join(format!("{name}.o")));
    }
    run_ok(folder.path(), "cc program.o library.o -o program");
    let linked = fs::read(folder.path().join("program")).expect("read");
    assert!(!contents(&linked).0.iter().any(|(name, _)| name == ".touchmark"));
    assert!(!identity.verifies(&linked));
    check_that_it_runs(&identity, folder.path(), "linked from signed objects");
}

#[test]
fn strip_takes_the_signature_or_breaks_it() {
    let (identity, folder) = (Identity::new(), folder());
    let path = folder.path().join("program");
    for command in ["strip program", "strip -d program", "objcopy program program"] {
        run_ok(folder.path(), "cc -g program.c library.c -o program");
        sign_in_place(&identity, &path);
        run_ok(folder.path(), command);
        let changed = fs::read(&path).expect("read");
        assert!(!identity.verifies(&changed), "{command}");
        assert_eq!(run(folder.path(), "./program").status.code(), Some(3), "{command}");
    }
}

/// Runs `program`, signs it, and runs it again.
fn check_that_it_runs(identity: &Identity, folder: &Path, what: &str) {
    let before = run(folder, "./program");
    assert_eq!((before.status.code(), &before.stdout[..]), (Some(3), &b"42\n"[..]), "{what}");
    sign_in_place(identity, &folder.join("program"));
    let after = run(folder, "./program");
    assert_eq!((after.status.code(), after.stdout), (before.status.code(), before.stdout), "{what}");
}

fn write_program(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("write");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("mode");
}
