// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What applies a recommendation elsewhere: a systemd unit, a Kubernetes container, a libvirt domain.

use super::recommend::Recommendation;

/// Memory is asked for with this much more than was measured.
const ROOM_PERCENT: u64 = 125;

/// A drop-in for a systemd service (`systemd.exec(5)`, `systemd.resource-control(5)`).
#[must_use]
pub fn systemd(advice: &Recommendation, command: &[String], resident: u64) -> String {
    let words: Vec<String> = run(advice, command).iter().map(|word| unit_word(word)).collect();
    // Locked memory cannot be reclaimed: a unit that is limited below what it needs is killed.
    format!(
        "[Service]\n{}ExecStart=\nExecStart={}\n# measured: MemoryMax= must not be below {} MiB\n",
        limit(advice),
        words.join(" "),
        mib(resident)
    )
}

/// A part of a container's specification. Kubernetes has no setting for RLIMIT_MEMLOCK; the capability exempts from it.
#[must_use]
pub fn kubernetes(advice: &Recommendation, command: &[String], resident: u64) -> String {
    // Debug text of a string is JSON's for all that is printable, and YAML reads JSON.
    let words: Vec<String> = run(advice, command).iter().map(|word| format!("{word:?}")).collect();
    format!(
        "command: [{}]\nsecurityContext:\n  capabilities:\n    add: [\"IPC_LOCK\"]\nresources:\n  requests:\n    \
         memory: {1}Mi\n  limits:\n    memory: {1}Mi\n",
        words.join(", "),
        mib(resident)
    )
}

/// Parts of a domain.
///
/// libvirt's own setting locks the whole guest at once, and needs a limit that QEMU itself fits into as well. It has none
/// for locking on fault; QEMU has one since 10.0, and needs the limit from the service that starts it.
#[must_use]
pub fn libvirt(advice: &Recommendation, mapped: u64) -> String {
    if advice.policy == "future" {
        let kib = mapped.saturating_mul(ROOM_PERCENT) / 100 / 1024;
        return format!(
            "<memoryBacking>\n  <locked/>\n</memoryBacking>\n<memtune>\n  <hard_limit unit='KiB'>{kib}</hard_limit>\n\
             </memtune>\n"
        );
    }
    "<!-- QEMU 10.0 and newer; LimitMEMLOCK=infinity in a drop-in for virtqemud.service or libvirtd.service.\n     Older \
     QEMU: a script as <emulator> with\n     exec touchmark memlock run (policy onfault) qemu-system-x86_64 \"$@\" -->\n\
     <qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\n  <qemu:arg value='-overcommit'/>\n  \
     <qemu:arg value='mem-lock=on-fault'/>\n</qemu:commandline>\n"
        .to_owned()
}

fn limit(advice: &Recommendation) -> &'static str {
    if advice.policy == "none" { "" } else { "LimitMEMLOCK=infinity\n" }
}

/// The command line, word by word.
fn run(advice: &Recommendation, command: &[String]) -> Vec<String> {
    let mut words: Vec<String> =
        ["/usr/bin/touchmark", "memlock", "run", "--policy", advice.policy].map(str::to_owned).into();
    if let Some(stack) = advice.stack {
        words.extend(["--stack".to_owned(), format!("{}K", stack / 1024)]);
    }
    words.extend(advice.compat.then(|| "--compat".to_owned()));
    words.extend(advice.follow.then(|| "--follow".to_owned()));
    words.push("--".to_owned());
    words.extend(command.iter().cloned());
    words
}

/// As `systemd.service(5)` wants words of a command line: `$` and `%` doubled, quotes and backslashes escaped.
fn unit_word(word: &str) -> String {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "-_./:=,@+".contains(sign);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let mut text = String::from('"');
    for sign in word.chars() {
        match sign {
            '"' | '\\' => text.extend(['\\', sign]),
            '$' | '%' => text.extend([sign, sign]),
            '\n' => text.push_str("\\n"),
            _ => text.push(sign),
        }
    }
    text.push('"');
    text
}

fn mib(bytes: u64) -> u64 {
    (bytes.saturating_mul(ROOM_PERCENT) / 100).div_ceil(1 << 20).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice() -> Recommendation {
        Recommendation { policy: "future", compat: false, follow: true, stack: Some(256 << 10), reasons: Vec::new() }
    }

    #[test]
    fn fragments_name_command_and_sizes() {
        let command = ["/usr/bin/x", "a \"b\" $c 5%"].map(str::to_owned);
        let unit = systemd(&advice(), &command, 80 << 20);
        assert!(unit.contains("LimitMEMLOCK=infinity\nExecStart=\nExecStart=/usr/bin/touchmark memlock run --policy"));
        assert!(
            unit.contains("--stack 256K --follow -- /usr/bin/x \"a \\\"b\\\" $$c 5%%\"\n") && unit.contains("100 MiB"),
            "{unit}"
        );
        let pod = kubernetes(&advice(), &command, 80 << 20);
        assert!(pod.contains(r#""--", "/usr/bin/x", "a \"b\" $c 5%"]"#) && pod.contains("memory: 100Mi"), "{pod}");
        assert!(libvirt(&advice(), 1 << 30).contains("<hard_limit unit='KiB'>1310720</hard_limit>"));
        let on_fault = Recommendation { policy: "onfault", ..advice() };
        assert!(libvirt(&on_fault, 1 << 30).contains("value='mem-lock=on-fault'"));
    }
}
