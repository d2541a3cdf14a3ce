// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real programs that are run again and again, each as one process whose memory tells something: those of the test
//! `memlock_programs.rs` without their shells, and some more.

use std::fmt::Write;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// A name and a command line, run in the folder that [`prepare`] fills.
pub(crate) const PROGRAMS: &[(&str, &[&str])] = &[
    ("awk", &["awk", "{ sum += $1; seen[$1] = $0 } END { print sum }", "numbers"]),
    ("bash", &["bash", "-c", "for i in {1..60000}; do ((sum += i)); done; echo $sum"]),
    ("bc", &["bc", "-q", "power.bc"]),
    ("busybox", &["busybox", "sha256sum", "text"]),
    ("bzip2", &["bzip2", "-kc", "numbers"]),
    ("cksum", &["cksum", "text", "text", "text", "text", "text", "text", "text", "text"]),
    ("clang", &["clang", "-O1", "-fintegrated-cc1", "-c", "program.c", "-o", "clang.o"]),
    ("cmake", &["cmake", "-P", "loop.cmake"]),
    ("dash", &["dash", "-c", "i=0; while [ $i -lt 150000 ]; do i=$((i + 1)); done"]),
    ("diff", &["diff", "numbers", "shuffled"]),
    ("find", &["find", "/usr", "-name", "*.h"]),
    ("gdb", &["gdb", "-nx", "-batch", "-ex", "print 6*7"]),
    ("git", &["git", "diff", "--no-index", "--stat", "numbers", "shuffled"]),
    ("go", &["go", "doc", "fmt"]),
    ("gpg", &["gpg", "--homedir", ".", "--print-md", "sha256", "text"]),
    // Nothing matches: with its output thrown away, it would end at the first match.
    ("grep", &["grep", "-cE", "([0-9])x\\1", "text"]),
    ("gzip", &["gzip", "-kc", "numbers"]),
    ("java", &["java", "Sum.java"]),
    ("jq", &["jq", "map(. * 2) | add", "numbers.json"]),
    ("node", &["node", "-e", "let s = 0; for (let i = 0; i < 3e7; i++) s += i; console.log(s)"]),
    ("openssl", &["openssl", "dgst", "-sha512", "text", "text"]),
    ("perl", &["perl", "-e", "my %h; $h{$_ % 5000} .= $_ for 1..200000; print scalar keys %h"]),
    ("python3", &["python3", "-c", "print(sum(len(str(i)) for i in range(400000)))"]),
    ("qemu-img", &["qemu-img", "convert", "-O", "qcow2", "text", "text.qcow2"]),
    ("qemu-system-x86_64", &["qemu-system-x86_64", "-m", "256", "-display", "none", "-S", "-nodefaults"]),
    ("readelf", &["readelf", "-sW", "/usr/bin/openssl", "/usr/bin/git"]),
    ("sed", &["sed", "s/7/seven/g", "numbers"]),
    ("sha256sum", &["sha256sum", "text"]),
    ("sort", &["sort", "-n", "shuffled"]),
    (
        "sqlite3",
        &[
            "sqlite3",
            ":memory:",
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000) \
                   select sum(i * 2) from n;",
        ],
    ),
    ("ssh-keygen", &["ssh-keygen", "-M", "generate", "-O", "bits=256", "-O", "lines=1", "moduli"]),
    ("strings", &["strings", "text"]),
    ("tar", &["tar", "cf", "text.tar", "text"]),
    ("vim", &["vim", "-u", "NONE", "-es", "-c", "%s/7/seven/g", "-c", "q!", "numbers"]),
    ("web server", &["python3", "-m", "http.server", "--bind", "127.0.0.1", "0"]),
    ("xz", &["xz", "-kc", "-1", "numbers"]),
    ("zstd", &["zstd", "-q", "-kc", "-9", "numbers"]),
];

/// Numbers in order and out of it.
const NUMBERS: u32 = 150_000;

/// The files that the command lines name.
pub(crate) fn prepare(folder: &Path) -> Result<()> {
    let (mut numbers, mut shuffled, mut json) = (String::new(), String::new(), String::from("[0"));
    for number in 0..NUMBERS {
        // A prime, so that each number comes once.
        let other = u64::from(number) * 104_729 % u64::from(NUMBERS);
        writeln!(numbers, "{number}")?;
        writeln!(shuffled, "{other}")?;
        write!(json, ",{number}")?;
    }
    let write = |name: &str, text: &str| fs::write(folder.join(name), text);
    write("numbers", &numbers)?;
    write("shuffled", &shuffled)?;
    write("numbers.json", &(json + "]"))?;
    write("text", &numbers.repeat(30))?;
    write("power.bc", "2^150000\nquit\n")?;
    write("loop.cmake", "foreach(i RANGE 30000)\n  math(EXPR s \"${i} * 2\")\nendforeach()\n")?;
    write("program.c", &(0..500).map(|n| format!("int f{n}(int a) {{ return a * {n} + a; }}\n")).collect::<String>())?;
    write(
        "Sum.java",
        "class Sum { public static void main(String[] a) { System.out.println(\
         java.util.stream.IntStream.range(0, 1000000).parallel().mapToObj(Integer::toString).mapToInt(String::length).sum()); } }",
    )?;
    Ok(())
}

/// Where a program is: the system's before others, which are often scripts around it.
pub(crate) fn locate(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = ["/usr/bin", "/bin"].map(PathBuf::from).into_iter().chain(std::env::split_paths(&path));
    let mut magic = [0; 4];
    let mut is_elf = |path: &PathBuf| {
        File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
    };
    folders.map(|folder| folder.join(name)).find(|path| is_elf(path))
}
