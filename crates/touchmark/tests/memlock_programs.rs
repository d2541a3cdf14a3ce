// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real programs do the same with their memory locked as without.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{skip, stderr};

/// A name and a shell command that does some work and prints a result; it runs in a folder of its own.
const PROGRAMS: &[(&str, &str)] = &[
    ("awk", "awk 'BEGIN { for (i = 0; i < 100000; i++) sum += i; print sum }'"),
    ("bash", "bash -c 'for i in {1..1000}; do ((sum += i)); done; echo $sum | cat; wait'"),
    ("bc", "echo '2^500' | bc"),
    ("busybox", "busybox sh -c 'busybox seq 1000 | busybox sha256sum'"),
    ("bzip2", "seq 100000 | bzip2 | bzip2 -d | cksum"),
    ("cmake", "cmake -E echo hello"),
    ("clang", "printf 'int main(){return 7;}' | clang -x c - -o clanged; ./clanged; echo $?"),
    ("curl", "echo there > file; curl -s file://$PWD/file"),
    ("dash", "dash -c 'echo $(( 6 * 7 ))'"),
    ("diff", "seq 9 > one; seq 2 10 > two; diff one two; test $? = 1 && echo differ"),
    ("dpkg-query", "dpkg-query -W -f '${Package}\\n' dpkg"),
    ("find", "find /usr/include -name 'std*.h' | sort | cksum"),
    ("gcc", "printf 'int main(){return 7;}' | gcc -O2 -x c - -o program; ./program; echo $?"),
    ("gdb", "gdb -nx -batch -ex 'print 6*7'"),
    ("git", "git init -q r; cd r; git -c user.name=a -c user.email=b commit -q --allow-empty -m x; git log --format=%s"),
    ("go", "printf 'package main\\nfunc main() { println(42) }\\n' > x.go; GOCACHE=$PWD/cache go run x.go 2>&1"),
    ("gpg", "gpg --homedir $PWD --print-md sha256 < /dev/null"),
    ("grep", "grep -c . /etc/services"),
    ("gzip", "seq 100000 | gzip | gzip -d | cksum"),
    ("java", "printf 'class A { public static void main(String[] a) { System.out.println(\
              java.util.stream.IntStream.range(0, 100000).parallel().sum()); } }' > A.java; java A.java"),
    ("jq", "echo '{\"a\":[1,2,3]}' | jq -c '[.a[]*2]'"),
    ("make", "printf 'all:\\n\\t@echo made\\n' > Makefile; make -s"),
    ("mawk", "mawk 'BEGIN { print length(\"four\") }'"),
    ("openssl", "echo x | openssl enc -aes-256-cbc -pbkdf2 -k p | openssl enc -d -aes-256-cbc -pbkdf2 -k p"),
    ("patch", "seq 5 > f; seq 6 > g; diff -u f g > p; patch -s f p; cksum < f"),
    ("perl", "perl -e 'print unpack(q(%32C*), join(q(), 1..100000)), qq(\\n)'"),
    ("postgres", "d=$PWD/data; mkdir $d; chown 65534 $d; b=$(dirname $(readlink -f $(command -v postgres)))
        as='setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=+ipc_lock --ambient-caps=+ipc_lock'; chmod 755 .; cd /
        $as $b/initdb -U p -D $d -N > /dev/null && echo 'select 6*7 as answer;' | $as $b/postgres --single -D $d postgres \
        | grep -o 'answer = \"42\"'"),
    ("ps", "ps -o comm= $$"),
    ("python3", "python3 -c 'import hashlib, json, threading, subprocess; print(hashlib.sha256(b\"x\" * 9999999).hexdigest())'"),
    ("qemu-img", "qemu-img create -q -f qcow2 d 1G; qemu-img info d | grep 'virtual size'"),
    ("qemu-system-x86_64", "echo quit | qemu-system-x86_64 -m 256 -display none -S -monitor stdio | grep -c QEMU"),
    ("rustc", "echo 'fn main() { println!(\"{}\", 6 * 7); }' > r.rs; rustc r.rs; ./r"),
    ("sed", "seq 10 | sed -n '3,5p'"),
    ("sort", "seq 200000 | sort -R --random-source=/etc/services | sort -n | cksum"),
    ("sqlite3", "sqlite3 x.db 'create table t(a); insert into t values(1),(2); select sum(a) from t;'"),
    ("ssh-keygen", "ssh-keygen -q -t ed25519 -N '' -f k; ssh-keygen -y -f k | cut -c1-11"),
    ("tar", "mkdir t; seq 100 > t/f; tar c --mtime=@0 t | tar tv | wc -l"),
    ("tmux", "TMUX_TMPDIR=$PWD tmux -f /dev/null new -d 'echo in tmux > out; tmux wait -S done' \\; wait done; cat out"),
    ("vim", "vim -u NONE -es -c 'call writefile([string(6*7)], \"out\")' -c q! < /dev/null; cat out"),
    ("xz", "seq 100000 | xz -T2 | xz -d | cksum"),
    ("zstd", "seq 100000 | zstd -q -T2 | zstd -d | cksum"),
    ("a web server", "python3 -c '
import http.server, threading, urllib.request
server = http.server.ThreadingHTTPServer((\"127.0.0.1\", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f\"http://127.0.0.1:{server.server_port}/\").status)'"),
];

fn shell(wrapper: &[&str], script: &str, folder: &Path) -> Output {
    let mut all = wrapper.to_vec();
    all.extend(["sh", "-c", script]);
    let mut command = Command::new(all[0]);
    command.args(&all[1..]).current_dir(folder).env("HOME", folder).stdin(Stdio::null());
    // A tool that this test's own cargo sets up is not to be looked for under another HOME.
    for (variable, under) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
        if std::env::var_os(variable).is_none() {
            let home = std::env::var_os("HOME").unwrap_or_default();
            command.env(variable, Path::new(&home).join(under));
        }
    }
    command.output().unwrap()
}

#[test]
fn real_programs_do_the_same_locked_on_fault() {
    let mut done = 0;
    for (name, script) in PROGRAMS {
        let fresh = || tempfile::tempdir_in("/var/tmp").unwrap();
        let plain = shell(&["env"], script, fresh().path());
        if !plain.status.success() || plain.stdout.is_empty() {
            skip(name);
            continue;
        }
        let touchmark = env!("CARGO_BIN_EXE_touchmark");
        let wrapper = [touchmark, "memlock", "run", "--policy", "onfault", "--follow", "--"];
        let locked = shell(&wrapper, script, fresh().path());
        assert_eq!(locked.status, plain.status, "{name}: {}", stderr(&locked));
        let (expected, found) = (String::from_utf8_lossy(&plain.stdout), String::from_utf8_lossy(&locked.stdout));
        assert_eq!(found, expected, "{name}: {}", stderr(&locked));
        assert!(!stderr(&locked).contains("touchmark:"), "{name}: {}", stderr(&locked));
        done += 1;
    }
    println!("{done} of {} programs", PROGRAMS.len());
    assert!(done >= 10, "expected at least ten programs to be installed, found {done}");
}
