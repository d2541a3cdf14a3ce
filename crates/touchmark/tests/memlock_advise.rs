// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark memlock advise`: what it predicts comes true, and what it recommends works.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{code, expect_code, objects, run, skip, stderr, touchmark};
use serde_json::Value;

/// Reserves 300 MiB, touches 30 of them and 30 others, and waits long enough to be looked at.
const PROGRAM: &str = "\
import mmap, time
room = mmap.mmap(-1, 300 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
room.write(b'x' * (30 << 20))
time.sleep(0.05)";

fn advise(options: &[&str], command: &[&str]) -> Value {
    let mut all = vec!["memlock", "advise", "--json", "--runs", "3"];
    all.extend(options);
    all.push("--");
    all.extend(command);
    let output = touchmark(all);
    expect_code(&output, 0);
    objects(&output).remove(0)
}

/// A Python that is no script around another.
fn python() -> Option<String> {
    let found = run("python3", &["-c", "import sys; print(sys.executable)"])?;
    found.status.success().then(|| String::from_utf8_lossy(&found.stdout).trim().to_owned())
}

#[test]
fn resident_memory_is_predicted() {
    let Some(python) = python() else { return skip("no python3") };
    let report = advise(&[], &[&python, "-c", PROGRAM]);
    for row in report["policies"].as_array().unwrap() {
        let (predicted, tried) = (&row["predicted"]["resident"], &row["tried"]["measured"]["resident"]);
        let measured = tried.as_f64().unwrap();
        let (least, most) = (predicted["least"].as_f64().unwrap(), predicted["most"].as_f64().unwrap());
        assert!((least..=most).contains(&measured), "{row}");
        assert!(most - least < measured * 0.04, "a range this wide says nothing: {row}");
        let expected = if row["policy"] == "future" { 330 << 20 } else { 60 << 20 };
        assert!(measured > f64::from(expected) && measured < f64::from(expected + (40 << 20)), "{row}");
        assert_eq!(row["tried"]["works"], true, "{row}");
    }
    assert_eq!(report["recommendation"]["policy"], "onfault");
}

#[test]
fn the_goal_decides_and_a_fragment_applies_it() {
    let report = advise(&["--goal", "deadline", "--for", "systemd"], &["sleep", "0.05"]);
    assert_eq!(report["recommendation"]["policy"], "future", "{report}");
    let fragment = report["fragment"].as_str().unwrap();
    assert!(fragment.contains("LimitMEMLOCK=infinity") && fragment.contains("-- sleep 0.05\n"), "{fragment}");
}

/// libvirt's own schema says whether a domain with the fragment in it is one.
#[test]
fn libvirt_takes_what_is_written_for_it() {
    let folder = tempfile::tempdir().unwrap();
    for (goal, part) in [("stay", "mem-lock=on-fault"), ("deadline", "<locked/>")] {
        let report = advise(&["--goal", goal, "--for", "libvirt"], &["sleep", "0.05"]);
        let fragment = report["fragment"].as_str().unwrap();
        assert!(fragment.contains(part), "{fragment}");
        let domain = folder.path().join("domain.xml");
        let text = format!(
            "<domain type='qemu'><name>x</name><memory unit='MiB'>512</memory><os><type arch='x86_64'>hvm</type></os>\n\
             {fragment}</domain>\n"
        );
        std::fs::write(&domain, text).unwrap();
        let Some(checked) = run("virt-xml-validate", &[domain.to_str().unwrap(), "domain"]) else {
            return skip("no virt-xml-validate");
        };
        assert!(checked.status.success(), "{}{fragment}", stderr(&checked));
    }
}

#[test]
fn a_program_that_must_discard_memory_is_found_out() {
    if run("node", &["--version"]).is_none() {
        return skip("no node");
    }
    let report = advise(&[], &["node", "-e", "setTimeout(() => {}, 50)"]);
    assert_eq!(report["recommendation"]["compat"], true, "{report}");
    assert_eq!(report["recommendation"]["policy"], "onfault");
}

#[test]
fn a_server_is_cut_and_a_running_process_is_looked_at() {
    let report = advise(&["--duration", "200ms"], &["sleep", "600"]);
    assert_eq!(report["unlocked"]["cut"], true);
    assert_eq!(report["recommendation"]["policy"], "onfault", "{report}");
    let own = std::process::id().to_string();
    let output = touchmark(["memlock", "advise", "--json", "--pid", &own]);
    expect_code(&output, 0);
    let policies = &objects(&output)[0]["policies"];
    let resident = |index: usize| policies[index]["predicted"]["resident"]["most"].as_f64().unwrap();
    assert!(resident(0) > 0.0 && resident(2) > resident(0), "{policies}");
}

#[test]
fn what_cannot_be_tried_is_said() {
    let nothing = touchmark(["memlock", "advise"]);
    assert_eq!(code(&nothing), 2, "{}", stderr(&nothing));
    let gone = touchmark(["memlock", "advise", "--pid", "999999999"]);
    expect_code(&gone, 3);
    assert!(stderr(&gone).contains("cannot look at process 999999999"), "{}", stderr(&gone));
    let missing = touchmark(["memlock", "advise", "--runs", "1", "--", "no-program-has-this-name"]);
    expect_code(&missing, 3);
    assert!(stderr(&missing).contains("no-program-has-this-name"), "{}", stderr(&missing));
}
