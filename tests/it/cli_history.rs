//! `pausewatch history`: the pauses that have ended, from the coordinator and from an audit trail.
use crate::program::{Coordinator, assert_snapshot, ended, program};
use std::path::Path;

/// Masks what differs from run to run.
fn masked(text: &str) -> String {
    let is_time = |word: &str| word.len() >= 19 && word.as_bytes()[4] == b'-' && word.as_bytes()[10] == b'T';
    let line = |line: &str| {
        let Some((key, value)) = line.split_once("\": \"") else { return line.to_owned() };
        let key_name = key.trim_start().trim_start_matches('"');
        let kind = match key_name {
            "elicitationId" => "ID",
            "duration" | "paused" | "waited" | "longest" => "LENGTH",
            _ if is_time(value) => "TIME",
            _ => return line.to_owned(),
        };
        format!("{key}\": \"{kind}\"{}", if value.ends_with(',') { "," } else { "" })
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

#[test]
fn history_has_a_table_and_json() {
    let coordinator = Coordinator::start();
    let empty = coordinator.answer(["history"]);
    assert!(
        empty.starts_with("ENDED  THREAD  PAUSED FOR  ENDED BY  HOLDER  REASON\n\n0 pauses, 0.0s in all.\n"),
        "{empty}"
    );
    coordinator.answer(["increment", "--reason", "Push?", "--holder", "git[7]@laptop"]);
    coordinator.answer(["increment", "--reason", "Publish\u{9b}?", "--holder", "npm[8]@laptop"]);
    coordinator.answer(["decrement"]);
    coordinator.answer(["decrement"]);
    coordinator.answer(["increment", "--thread-id", "u", "--reason", "Push?", "--holder", "git[9]@laptop"]);
    coordinator.answer(["decrement", "--thread-id", "u"]);
    let table = coordinator.answer(["history"]);
    let rows: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1][2], "u", "the latest pause is first: {table}");
    assert_eq!((rows[1][4], rows[1][5..].join(" ").as_str()), ("decremented", "git[9]@laptop Push?"));
    assert_eq!((rows[2][2], rows[3].join(" ").as_str()), ("t", "decremented git[7]@laptop Push?"), "{table}");
    assert!(table.contains("Publish\\u{9b}?") && table.contains("\n2 pauses, "), "{table}");
    assert!(table.contains("\nThe coordinator has all pauses that ended since 20"), "{table}");
    assert!(!coordinator.answer(["history", "--thread-id", "t"]).contains("git[9]"));
    assert!(!coordinator.answer(["history", "--limit", "1"]).contains("git[7]"));
    assert!(coordinator.answer(["history", "--until", "1h"]).contains("\n0 pauses"));
    assert!(coordinator.answer(["history", "--since", "1h"]).contains("\n2 pauses"));
    let mut text = masked(&coordinator.answer(["history", "--thread-id", "t", "--output", "json"]));
    text += &masked(&coordinator.answer(["history", "--thread-id", "u", "--summary", "--output", "json"]));
    assert_snapshot("history.txt", &text);
    let summary = coordinator.answer(["history", "--summary"]);
    assert!(summary.starts_with("WAITED  COUNT  LONGEST  EXPIRED  HOLDER      REASON\n"), "{summary}");
    assert!(summary.contains("  2      ") && summary.contains("git@laptop  Push?\n"), "{summary}");
    for bad in [["history", "--since", "yesterday"], ["history", "--limit", "0"]] {
        assert_eq!(coordinator.run(bad).code, Some(2));
    }
    let backwards = coordinator.run(["history", "--since", "1h", "--until", "2h"]);
    assert_eq!((backwards.code, backwards.err.as_str()), (Some(2), "pausewatch history: --until is before --since\n"));
}

/// A server that writes an audit trail in small files; returns the coordinator.
fn serve_with_trail(trail: &Path) -> Coordinator {
    let trail = trail.to_str().unwrap();
    let options = ["--listen", "127.0.0.1:0", "--store", "memory", "--audit-max-size", "2KiB", "--audit-log", trail];
    Coordinator::start_with(options)
}

#[test]
fn an_audit_trail_tells_the_same_pauses_without_a_server() {
    let directory = tempfile::tempdir().unwrap();
    let trail = directory.path().join("audit.log");
    let coordinator = serve_with_trail(&trail);
    for i in 0..6 {
        let holder = format!("git[{i}]@laptop");
        let opened = coordinator.answer(["increment", "--reason", "Push?", "--holder", &holder, "--ttl", "1m"]);
        coordinator.answer(["renew", opened.trim()]);
        coordinator.answer(["increment", "--reason", "Publish?", "--holder", "npm"]);
        coordinator.answer(["decrement"]);
        coordinator.answer(["decrement"]);
    }
    coordinator.answer(["increment", "--thread-id", "u"]);
    let of_server: serde_json::Value =
        serde_json::from_str(&coordinator.answer(["history", "--output", "json"])).unwrap();
    coordinator.end();
    let mut files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() > 3, "it was rotated: {files:?}");
    files.sort();
    let history = |options: &[&str]| {
        let ended = ended(program().arg("history").args(options).arg("--audit").args(&files));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        (ended.out, ended.err)
    };
    let (json, said) = history(&["--output", "json"]);
    assert_eq!(said, "pausewatch history: 1 thread paused after the last line\n");
    let of_trail: serde_json::Value = serde_json::from_str(&json).unwrap();
    let comparable = |json: &serde_json::Value| {
        let mut pauses = json["pauses"].as_array().unwrap().clone();
        // An audit trail has durations by the wall clock, the server by a clock that cannot be set.
        pauses.iter_mut().for_each(|pause| drop(pause.as_object_mut().unwrap().remove("duration")));
        pauses
    };
    assert_eq!(comparable(&of_trail), comparable(&of_server));
    let (table, said) = history(&["--limit", "1"]);
    assert!(table.contains("git[5]@laptop") && !table.contains("git[4]@laptop"), "{table}");
    assert!(said.contains("5 older pauses not shown"), "{said}");
    let (summary, _) = history(&["--summary"]);
    assert!(summary.contains("  6      ") && summary.contains("git@laptop  Push?\n"), "{summary}");
    assert!(history(&["--thread-id", "u"]).0.contains("\n0 pauses"));
    assert!(history(&["--until", "1h"]).0.contains("\n0 pauses"));

    // Through standard input, as from a decompressor.
    let number = |path: &std::path::PathBuf| path.extension().and_then(|number| number.to_str()?.parse::<u32>().ok());
    files.sort_by_key(|path| std::cmp::Reverse(number(path)));
    let whole = directory.path().join("whole");
    std::fs::write(&whole, files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect::<String>())
        .unwrap();
    let mut piped = program();
    piped.args(["history", "--output", "json", "--audit", "-"]).stdin(std::fs::File::open(&whole).unwrap());
    assert_eq!(ended(&mut piped).out, json);
}

#[test]
fn damaged_lines_of_a_trail_are_named_and_the_rest_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let trail = directory.path().join("audit.log");
    let coordinator = Coordinator::start_with([
        "--listen",
        "127.0.0.1:0",
        "--store",
        "memory",
        "--audit-log",
        trail.to_str().unwrap(),
    ]);
    for _ in 0..2 {
        coordinator.answer(["increment", "--reason", "Push?"]);
        coordinator.answer(["decrement"]);
    }
    coordinator.end();
    let sound = std::fs::read_to_string(&trail).unwrap();
    let run = |contents: &str| {
        std::fs::write(&trail, contents).unwrap();
        ended(program().args(["history", "--audit"]).arg(&trail))
    };
    let name = trail.display();
    let damaged = run(&sound.replacen("\"opened\"", "\"opened", 1));
    assert_eq!(damaged.code, Some(1));
    assert!(damaged.err.contains(&format!("{name}:2: no line of an audit trail")), "{}", damaged.err);
    assert!(damaged.err.contains("1 pause not shown: the files do not have all lines"), "{}", damaged.err);
    assert!(damaged.out.contains("\n1 pause, "), "{}", damaged.out);
    let cut = run(&sound[..sound.len() - 20]);
    assert_eq!(cut.code, Some(0), "the last line may be incomplete: a server may be writing it");
    assert!(cut.err.contains(&format!("{name}:5: the last line is incomplete")), "{}", cut.err);
    let many = run(&"damaged\n".repeat(50));
    assert_eq!(many.err.lines().count(), 11, "{}", many.err);
    assert!(many.err.ends_with("40 more lines could not be read\n"), "{}", many.err);
    let missing = ended(program().args(["history", "--audit", "/proc/nonexistent/audit.log"]));
    assert_eq!((missing.code, missing.out.as_str()), (Some(1), ""));
    assert!(missing.err.contains("/proc/nonexistent/audit.log: No such file"), "{}", missing.err);
}
