use super::*;
use crate::client::{Elicitation, PauseState};

const MINUTE: i64 = 60;

/// A row that has been paused for `paused_for` seconds. Each question has a holder, a reason and the seconds of its
/// lease, 0 for none.
fn row(thread_id: &str, paused_for: i64, watchers: Option<u32>, questions: &[(&str, &str, i64)]) -> Row {
    let time = |seconds| prost_types::Timestamp { seconds, nanos: 0 };
    let elicitation = |&(holder, reason, left): &(&str, &str, i64)| Elicitation {
        holder: holder.into(),
        reason: reason.into(),
        expire_time: (left > 0).then(|| time(1_000_000 + paused_for + left)),
        ..Default::default()
    };
    let state = PauseState {
        thread_id: thread_id.into(),
        paused: true,
        count: questions.len() as u32,
        pause_start_time: Some(time(1_000_000)),
        paused_for: Some(prost_types::Duration { seconds: paused_for, nanos: 999_000_000 }),
        elicitations: questions.iter().map(elicitation).collect(),
        ..Default::default()
    };
    Row { state, watchers }
}

fn rows() -> Vec<Row> {
    let git = ("git[29620]@laptop", "Push 3 commits to origin/main?", 24);
    let npm = ("npm[29731]@laptop", "Publish pausewatch@0.1.0 to the public registry?", 0);
    let hostile = ("ask[7]@build-3", "\u{1b}[2Jgone\n\u{202e}", 59 * MINUTE);
    vec![
        row("0195c2a4-7b1e-7d3f-8a4c-3f1e9d2b6a70", 26 * 60 * MINUTE, Some(2), &[git, npm]),
        row("請求書", 61 * MINUTE, Some(0), &[("ask[8]@laptop", "請求書を送りますか?", 29)]),
        row("build\u{1b}[31m", 75, None, &[hostile]),
        row("deploy", 5, Some(12), &[("codex", "", 30)]),
    ]
}

const LOST: &str = "since 22:30:00 (12s): Connection refused";

fn view<'a>(rows: &'a [Row], lost: Option<&'a str>) -> View<'a> {
    View { rows, address: "127.0.0.1:7420", lost }
}

fn shown(lines: &[Line]) -> String {
    lines.iter().map(|line| line.text.clone() + "\n").collect()
}

/// With `PAUSEWATCH_UPDATE_SNAPSHOTS=1` in the environment, this writes the file instead.
#[test]
fn screens_of_40_46_80_and_200_columns_match_the_snapshot() {
    let (rows, mut text) = (rows(), String::new());
    for columns in [40, 46, 80, 200] {
        let mut show = |what: &str, lines, view: View<'_>| {
            let lines = view.lines(Size { columns, lines });
            text += &format!("=== {columns} columns, {what}\n{}", shown(&lines));
        };
        show("all", 24, view(&rows, None));
        show("6 lines", 6, view(&rows, None));
        show("lost", 24, view(&rows, Some(LOST)));
        show("empty", 24, view(&[], None));
    }
    text += &format!("=== no terminal\n{}", super::text(&rows, "2026-11-21T22:30:00.123+01:00"));
    let path = format!("{}/src/cli/list/view_snapshot.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("PAUSEWATCH_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap(), "if it should differ, set PAUSEWATCH_UPDATE_SNAPSHOTS=1");
}

#[test]
fn no_screen_is_exceeded() {
    let rows = rows();
    for columns in (1..100).chain([200, 1_000]) {
        for lines in 1..15 {
            for lost in [None, Some(LOST)] {
                let drawn = view(&rows, lost).lines(Size { columns, lines });
                assert!(drawn.len() <= lines, "{columns} x {lines}:\n{}", shown(&drawn));
                // A table needs at least one character for each column, and the gaps.
                let least = columns.max(10);
                assert!(drawn.iter().all(|line| line.text.width() <= least), "{columns} x {lines}:\n{}", shown(&drawn));
                assert!(drawn.iter().all(|line| !line.text.chars().any(char::is_control)));
            }
        }
    }
}

#[test]
fn hidden_rows_are_counted_and_all_rows_are_shown_if_they_fit() {
    let rows: Vec<_> =
        (0..20).map(|number| row(&format!("t{number}"), 100 - number, Some(1), &[("h", "r", 9)])).collect();
    for lines in 1..30 {
        let drawn = shown(&view(&rows, None).lines(Size { columns: 80, lines }));
        let seen = drawn.lines().filter(|line| line.starts_with('t')).count();
        let fits = lines >= 23;
        assert_eq!(seen == 20, fits, "{lines}:\n{drawn}");
        assert_eq!(
            drawn.contains(&format!("{} more rows not shown", 20 - seen)),
            !fits && lines > 2,
            "{lines}:\n{drawn}"
        );
    }
}

#[test]
fn styles_mark_what_needs_attention() {
    let rows = rows();
    let styles = |lost| {
        let lines = view(&rows, lost).lines(Size { columns: 80, lines: 24 });
        lines.into_iter().map(|line| line.style).collect::<Vec<_>>()
    };
    use Style::{Header, Lost, Old, Plain, Title, Warning};
    assert_eq!(styles(None), [Title, Warning, Plain, Header, Plain, Plain, Warning, Plain, Plain]);
    assert_eq!(styles(Some(LOST)), [Title, Lost, Warning, Plain, Header, Old, Old, Old, Old, Old]);
}

#[test]
fn at_most_ten_threads_without_a_watcher_are_named() {
    let rows: Vec<_> = (0..12).map(|number| row(&format!("t{number}"), 1, Some(0), &[("h", "r", 9)])).collect();
    assert!(text(&rows, "").contains("Watched by no exec server: t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 and 2 more\n"));
}
