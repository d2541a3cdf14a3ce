// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark memlock run`: what is locked, and that a program notices nothing else.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use common::{expect_code, run, skip, stderr, text};

const TOUCHMARK: &str = env!("CARGO_BIN_EXE_touchmark");

/// `touchmark memlock run OPTIONS -- COMMAND`.
fn locked(options: &[&str], command: &[&str]) -> Output {
    let mut all = vec!["memlock", "run"];
    all.extend(options);
    all.push("--");
    all.extend(command);
    Command::new(TOUCHMARK).args(all).stdin(Stdio::null()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A number of KiB from a line of `/proc/PID/status`.
fn kib(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.trim_start_matches(':').split_whitespace().next());
    number.unwrap_or_else(|| panic!("no {key} in {text}")).parse().unwrap()
}

/// Root, but without the right to exceed limits, and with this limit on locked memory.
fn limited(bytes: &str, options: &[&str], command: &[&str]) -> Option<Output> {
    let limit = format!("--memlock={bytes}");
    let dropped = "-ipc_lock,-sys_resource";
    let mut all = vec![&limit, "setpriv", "--bounding-set", dropped, "--inh-caps", dropped, TOUCHMARK];
    all.extend(["memlock", "run"]);
    all.extend(options);
    all.push("--");
    all.extend(command);
    let output = run("prlimit", &all)?;
    let said = stderr(&output);
    (!said.contains("setpriv:") && !said.contains("prlimit:")).then_some(output)
}

#[test]
fn policies_lock_what_they_say() {
    let status = |policy: &str| {
        let output = locked(&["--policy", policy], &["cat", "/proc/self/status", "/proc/self/smaps"]);
        expect_code(&output, 0);
        assert!(output.stderr.is_empty(), "{}", stderr(&output));
        stdout(&output)
    };
    let none = status("none");
    assert_eq!(kib(&none, "VmLck"), 0);
    let on_fault = status("onfault");
    let future = status("future");
    let current = status("current");
    // All but the vdso and its like, which are not counted.
    assert!(kib(&on_fault, "VmLck") + 64 > kib(&on_fault, "VmSize"), "{on_fault}");
    assert!(kib(&future, "VmLck") + 64 > kib(&future, "VmSize"), "{future}");
    // What is mapped after the start is in memory under `future` alone.
    assert!(kib(&future, "VmRSS") + 64 > kib(&future, "VmLck"));
    assert!(kib(&on_fault, "VmRSS") + 256 < kib(&on_fault, "VmLck"));
    let part = kib(&current, "VmLck");
    assert!(part > 0 && part < kib(&current, "VmSize") / 2, "the program and its linker: {part}");
}

#[test]
fn static_and_go_programs_are_locked() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("main.go");
    fs::write(
        &source,
        "package main\nimport (\"fmt\"; \"os\")\n\
         func main() { b, _ := os.ReadFile(\"/proc/self/status\"); fmt.Print(string(b)) }\n",
    )
    .unwrap();
    let program = folder.path().join("program");
    let built = Command::new("go")
        .args(["build", "-o", text(&program), text(&source)])
        .env("CGO_ENABLED", "0")
        .stdin(Stdio::null())
        .output();
    if built.is_ok_and(|built| built.status.success()) {
        let output = locked(&[], &[text(&program)]);
        expect_code(&output, 0);
        assert!(kib(&stdout(&output), "VmLck") + 64 > kib(&stdout(&output), "VmSize"), "{}", stdout(&output));
        // Go reserves much and uses little: on fault it stays small.
        assert!(kib(&stdout(&output), "VmRSS") < 32 * 1024);
        if let Some(refused) = limited("8388608", &[], &[text(&program)]) {
            expect_code(&refused, 3);
            assert!(stderr(&refused).contains("Go runtime") && refused.stdout.is_empty(), "{}", stderr(&refused));
        }
    } else {
        skip("no go");
    }
    match run("busybox", &["true"]) {
        Some(_) => {
            let output = locked(&[], &["busybox", "cat", "/proc/self/status"]);
            assert!(kib(&stdout(&output), "VmLck") > 0, "{}", stdout(&output));
        }
        None => skip("no busybox"),
    }
    // The smallest program: no stack protector, no library, two instructions.
    let smallest = folder.path().join("smallest");
    fs::write(&smallest, common::smallest_elf()).unwrap();
    fs::set_permissions(&smallest, PermissionsExt::from_mode(0o755)).unwrap();
    expect_code(&locked(&["--follow"], &[text(&smallest)]), 0);
}

#[test]
fn exit_codes_and_signals_are_the_programs_own() {
    for follow in [&[][..], &["--follow"]] {
        for code in [0, 1, 42, 255] {
            expect_code(&locked(follow, &["sh", "-c", &format!("exit {code}")]), code);
        }
        for signal in [2, 6, 9, 11, 15, 37] {
            let output = locked(follow, &["sh", "-c", &format!("ulimit -c 0; kill -{signal} $$")]);
            assert_eq!(output.status.signal(), Some(signal), "{follow:?}");
            let warned = stderr(&output).contains("only sh itself is locked; what it starts needs --follow");
            assert_eq!(warned, follow.is_empty(), "{}", stderr(&output));
        }
    }
    let missing = locked(&[], &["no-program-has-this-name"]);
    expect_code(&missing, 3);
    assert!(stderr(&missing).contains("cannot start no-program-has-this-name: No such file"), "{}", stderr(&missing));
}

/// Everything that exec hands on, as the program finds it.
const LOOK: &str = "\
grep -E '^(Sig[PBIC]|Shd|Umask|Groups|Cap|NoNew|Seccomp|Uid|Gid|TracerPid)' /proc/self/status
grep -v 'locked memory' /proc/self/limits
ls /proc/self/fd; cut -d' ' -f 5,6,7,8,18,19 /proc/self/stat; pwd; env | sort | cksum; echo $0 \"$@\"";

#[test]
fn a_program_inherits_what_it_would_have_without() {
    // What begins the shell that starts it: closed descriptors, ignored signals, another mask and folder.
    for before in ["true", "exec <&-", "exec <&- >&1 2>&-", "trap '' PIPE HUP", "cd /; umask 077", "ulimit -n 50; nice"]
    {
        let look = |wrapper: &str| {
            let script = format!("{before}; exec {wrapper} bash -c '{}' name 'an  argument' --follow", quoted(LOOK));
            run("bash", &["-c", &script]).map(|output| stdout(&output))
        };
        let plain = look("");
        if plain.is_none() {
            return skip("no bash");
        }
        assert_eq!(plain, look(&format!("{TOUCHMARK} memlock run --")), "{before}");
    }
}

/// For use between single quotes.
fn quoted(text: &str) -> String {
    text.replace('\'', "'\\''")
}

/// A Python that is no script around another.
fn python() -> Option<String> {
    let found = run("python3", &["-c", "import sys; print(sys.executable)"])?;
    found.status.success().then(|| stdout(&found).trim().to_owned())
}

#[test]
fn no_stray_child_and_no_signal_is_left_behind() {
    let program = "\
import os, signal
try:
    print(os.wait())
except ChildProcessError:
    print('no child', signal.sigpending())";
    let Some(python) = python() else { return skip("no python3") };
    let plain = run(&python, &["-c", program]).unwrap();
    for follow in [&[][..], &["--follow"]] {
        assert_eq!(stdout(&locked(follow, &[&python, "-c", program])), stdout(&plain));
    }
    // SIGCHLD blocked by the one who starts it: a helper's end must not be pending in the program.
    let blocked = format!(
        "import os, signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD]); \
         os.execv({TOUCHMARK:?}, ['touchmark', 'memlock', 'run', '--', {python:?}, '-c', {program:?}])"
    );
    assert_eq!(stdout(&run(&python, &["-c", &blocked]).unwrap()), stdout(&plain));
}

#[test]
fn descendants_are_locked_when_followed() {
    let program = "\
import os, subprocess, threading
def show(who):
    with open('/proc/self/status') as status:
        print(who, [line.split()[1] != '0' for line in status if line.startswith('VmLck')][0], flush=True)
def fork(who):
    child = os.fork()
    if child == 0:
        show(who)
        os._exit(0)
    os.waitpid(child, 0)
show('itself')
fork('fork')
thread = threading.Thread(target=fork, args=('fork in a thread',))
thread.start()
thread.join()
look = 'grep -c \"^VmLck:.* 0 kB\" /proc/self/status'
print('exec', subprocess.run(['sh', '-c', look], stdout=subprocess.PIPE).stdout == b'0\\n', flush=True)
child = os.posix_spawn('/bin/sh', ['sh', '-c', look], {})
os.waitpid(child, 0)
";
    let Some(python) = python() else { return skip("no python3") };
    let expected = |all: bool| {
        let word = if all { "True" } else { "False" };
        let number = i32::from(!all);
        format!("itself True\nfork {word}\nfork in a thread {word}\nexec {word}\n{number}\n")
    };
    for policy in ["onfault", "future"] {
        let followed = locked(&["--follow", "--policy", policy], &[&python, "-c", program]);
        assert_eq!(stdout(&followed), expected(true), "{policy}: {}", stderr(&followed));
        assert_eq!(stdout(&locked(&["--policy", policy], &[&python, "-c", program])), expected(false), "{policy}");
    }
}

#[test]
fn stops_and_signals_reach_a_followed_program() {
    // It handles a real-time signal, stops itself twice, is continued by its parent, and ends with a code of its own.
    let program = "\
import os, signal
seen = []
signal.signal(signal.SIGRTMIN + 3, lambda number, frame: seen.append(number))
for _ in range(100):
    os.kill(os.getpid(), signal.SIGRTMIN + 3)
os.kill(os.getpid(), signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGTSTP)
os._exit(7 if len(seen) == 100 else 1)";
    let parent = "\
import os, signal, sys
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.execvp(sys.argv[1], sys.argv[1:])
signals = []
while True:
    _, status = os.waitpid(child, os.WUNTRACED | os.WCONTINUED)
    if os.WIFEXITED(status):
        print(signals, 'exit', os.WEXITSTATUS(status))
        break
    if os.WIFSTOPPED(status):
        signals.append(os.WSTOPSIG(status))
        os.kill(child, signal.SIGCONT)";
    let Some(python) = python() else { return skip("no python3") };
    let look = |wrapper: &[&str]| {
        let mut all = vec!["-c", parent];
        all.extend(wrapper);
        all.extend([&python, "-c", program]);
        stdout(&run(&python, &all).unwrap())
    };
    let plain = look(&[]);
    assert!(plain.contains("[19, 20] exit 7"), "{plain}");
    assert_eq!(look(&[TOUCHMARK, "memlock", "run", "--"]), plain);
    assert_eq!(look(&[TOUCHMARK, "memlock", "run", "--follow", "--"]), plain);
}

#[test]
fn nothing_runs_unlocked_that_was_to_be_locked() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let touch = ["touch", text(&trace)];
    // No limit at all is known before; 64 KiB only show when the program is mapped. It is not yet running then.
    for (limit, reason) in [("0", "the hard limit of locked memory is 0"), ("65536", "more mapped than it may lock")] {
        let Some(refused) = limited(limit, &[], &touch) else { return skip("needs root") };
        expect_code(&refused, 3);
        let said = stderr(&refused);
        assert!(said.contains("was not started") && said.contains(reason) && said.contains("LimitMEMLOCK="), "{said}");
        assert!(!trace.exists(), "{limit}: not one instruction of it ran");
        let followed = limited(limit, &["--follow"], &touch).unwrap();
        expect_code(&followed, 3);
        assert!(!trace.exists());
        let anyway = limited(limit, &["--best-effort"], &touch).unwrap();
        expect_code(&anyway, 0);
        assert!(stderr(&anyway).contains("UNLOCKED") && stderr(&anyway).contains(reason), "{}", stderr(&anyway));
        assert!(trace.exists());
        fs::remove_file(&trace).unwrap();
    }
    // Enough for the program: it runs, and the limit is pointed out.
    let enough = limited("8388608", &[], &touch).unwrap();
    expect_code(&enough, 0);
    assert!(stderr(&enough).contains("counts against the 8 MiB"), "{}", stderr(&enough));
    // A descendant that does not fit is refused in the same way, and says so on its own standard error.
    let script = "prlimit --memlock=65536 true 2>&1; echo code $?";
    let child = limited("8388608", &["--follow"], &["sh", "-c", script]).unwrap();
    assert!(stdout(&child).contains("was not started") && stdout(&child).ends_with("code 3\n"), "{}", stdout(&child));
}

#[test]
fn a_process_that_is_traced_already_is_refused() {
    let refused = locked(&["--follow"], &[TOUCHMARK, "memlock", "run", "--", "true"]);
    expect_code(&refused, 3);
    assert!(stderr(&refused).contains("is traced already"), "{}", stderr(&refused));
}

#[test]
fn setuid_programs_are_refused_without_privilege() {
    // A folder and programs that another user can reach.
    let folder = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir_in("/var/tmp").unwrap();
    let (tool, id) = (folder.path().join("touchmark"), folder.path().join("id"));
    fs::copy(TOUCHMARK, &tool).unwrap();
    fs::copy("/usr/bin/id", &id).unwrap();
    let as_nobody = |arguments: &[&str]| {
        let mut all = vec!["--reuid=65534", "--regid=65534", "--clear-groups"];
        all.extend(arguments);
        run("setpriv", &all)
    };
    fs::set_permissions(&id, PermissionsExt::from_mode(0o4755)).unwrap();
    let set_id = as_nobody(&[text(&id), "-u"]);
    if set_id.is_none_or(|output| stdout(&output) != "0\n") {
        return skip("needs root, and setuid programs");
    }
    let refused = as_nobody(&[text(&tool), "memlock", "run", "--", text(&id), "-u"]).unwrap();
    expect_code(&refused, 3);
    assert!(stderr(&refused).contains("setuid"), "{}", stderr(&refused));
    // A descendant is refused too, rather than running without its privileges.
    let script = format!("{} -u; echo code $?", id.display());
    let followed = as_nobody(&[text(&tool), "memlock", "run", "--follow", "--", "sh", "-c", &script]).unwrap();
    assert_eq!(stdout(&followed), "code 3\n", "{}", stderr(&followed));
    assert!(stderr(&followed).contains("setuid"), "{}", stderr(&followed));
    // Root's helper may trace anything, so the program keeps its privileges.
    let root = locked(&[], &["setpriv", "--reuid=65534", "--clear-groups", text(&id), "-u"]);
    assert_eq!(stdout(&root), "0\n", "{}", stderr(&root));
}

#[test]
fn stacks_are_as_small_as_asked() {
    let output = locked(&["--stack", "256K", "--policy", "future"], &["grep", "stack size", "/proc/self/limits"]);
    assert!(stdout(&output).contains(" 262144 "), "{}", stdout(&output));
    let wrong = locked(&["--stack", "much"], &["true"]);
    expect_code(&wrong, 2);
}

#[test]
fn scripts_are_locked_by_their_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    fs::write(&script, "#!/bin/sh\ngrep -c '^VmLck:.* 0 kB' /proc/$$/status\n").unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(stdout(&locked(&[], &[text(&script)])), "0\n");
}

#[test]
fn locked_memory_can_be_discarded_with_compat() {
    let program = "\
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def discard(who):
    room = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    room[0] = 7
    address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(room)))
    print(who, [(libc.madvise(address, ctypes.c_size_t(1 << 20), advice), room[0]) for advice in (4, 8)], flush=True)
discard('itself')
child = os.fork()
if child == 0:
    discard('child')
    os._exit(0)
os.waitpid(child, 0)";
    let Some(python) = python() else { return skip("no python3") };
    let refused = locked(&["--follow"], &[&python, "-c", program]);
    assert_eq!(stdout(&refused), "itself [(-1, 7), (-1, 7)]\nchild [(-1, 7), (-1, 7)]\n", "{}", stderr(&refused));
    for options in [&["--compat"][..], &["--compat", "--follow"]] {
        let output = locked(options, &[&python, "-c", program]);
        assert_eq!(stdout(&output), "itself [(0, 0), (0, 0)]\nchild [(0, 0), (0, 0)]\n", "{}", stderr(&output));
    }
}

#[test]
fn node_runs_with_compat_and_says_that_it_needs_it() {
    if run("node", &["--version"]).is_none() {
        return skip("no node");
    }
    let script = "let a = []; for (let i = 0; i < 3e5; i++) a.push('x' + i); a = null; gc(); \
                  console.log(/VmLck:\\s+0 kB/.test(require('fs').readFileSync('/proc/self/status')), \
                  require('child_process').execSync('echo child').toString().trim())";
    let command = ["node", "--expose-gc", "-e", script];
    let refused = locked(&[], &command);
    expect_code(&refused, 3);
    assert!(stderr(&refused).contains("--compat"), "{}", stderr(&refused));
    for options in [&["--compat"][..], &["--compat", "--follow"], &["--compat", "--policy", "future"]] {
        let output = locked(options, &command);
        assert_eq!(stdout(&output), "false child\n", "{}", stderr(&output));
    }
}

/// A terminal with a shell in it: types lines and keys, waits for words.
const TERMINAL: &str = r#"
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.environ['PS1'] = 'prompt> '
    os.execvp('bash', ['bash', '--norc', '--noprofile', '-i'])
seen = ''
def expect(word):
    global seen
    while word not in seen:
        seen += os.read(terminal, 4096).decode(errors='replace')
    seen = seen[seen.index(word) + len(word):]
def send(text):
    os.write(terminal, text.encode())
command = sys.argv[1] + sys.argv[2] + """ -c 'print("run" "ning", flush=True); input(); print("re" "sumed", flush=True); input()'\n"""
expect('prompt> ')
send(command)
expect('running')
send('\x1a')
expect('Stopped')
send('fg\n')
expect('print(')
send('\n')
expect('resumed')
send('\x03')
expect('prompt> ')
send('echo code=$?\n')
expect('code=1')
expect('30')
send('exit\n')
print('good')
"#;

#[test]
fn the_terminal_and_its_job_control_work() {
    let Some(python) = python() else { return skip("no python3") };
    if run("bash", &["-c", "true"]).is_none() {
        return skip("no bash");
    }
    for wrapper in ["", &format!("{TOUCHMARK} memlock run -- "), &format!("{TOUCHMARK} memlock run --follow -- ")] {
        let output = run(&python, &["-c", TERMINAL, wrapper, &python]).unwrap();
        assert_eq!(stdout(&output), "good\n", "{wrapper}: {}", stderr(&output));
    }
}
