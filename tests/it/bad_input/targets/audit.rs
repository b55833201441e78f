//! Lines of an audit trail, as `pausewatch history --audit` reads them.
use pausewatch::client::{Pause, PauseEnd};
use pausewatch::test_support::cli::AuditReplay;

pub(super) fn check(input: &[u8]) {
    let mut replay = AuditReplay::default();
    let mut refused = 0;
    for line in input.split(|&byte| byte == b'\n') {
        let (gaps, paused) = (replay.gaps(), replay.still_paused());
        match replay.line(line) {
            Ok(pause) => pause.iter().for_each(check_pause),
            Err(why) => {
                assert!(!why.is_empty());
                assert_eq!((replay.gaps(), replay.still_paused()), (gaps, paused), "a refused line changed something");
                refused += 1;
            }
        }
    }
    assert!(replay.still_paused() + refused <= input.len() + 1);
}

fn check_pause(pause: &Pause) {
    assert!(!pause.thread_id.is_empty());
    assert!((1..=16).contains(&pause.elicitations.len()), "{pause:?}");
    assert!(pause.elicitations.iter().all(|one| one.create_time.is_some() && one.end_time.is_some()), "{pause:?}");
    let last = pause.elicitations.last().expect("there is one");
    assert_eq!(
        (last.end_time, last.ended_by),
        (pause.end_time, pause.ended_by),
        "the last elicitation ended the pause"
    );
    assert_ne!(pause.ended_by(), PauseEnd::Unspecified);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let line = |event: &str, elicitation: &str, revision: u64, paused: bool| {
        format!(
            "{{\"time\":\"2026-11-22T08:15:04.118203417Z\",\"event\":\"{event}\",\"thread_id\":\"t\",\
             \"elicitation_id\":\"{elicitation}\",\"revision\":{revision},\"paused\":{paused},\"holder\":\"h\",\"reason\":\"r\\u0085\"}}\n"
        )
    };
    let whole = [
        "{\"time\":\"2026-11-22T08:15:04Z\",\"event\":\"server_started\",\"version\":\"1\"}\n".to_owned(),
        line("opened", "a", 1, true),
        line("opened", "b", 2, true),
        line("lease_ended", "a", 3, true),
        line("closed", "b", 4, false),
        line("opened", "c", 5, true),
        line("pause_capped", "c", 6, false),
        "{\"time\":\"2026-11-22T08:15:04Z\",\"event\":\"lines_missing\",\"lines\":3}\n".to_owned(),
    ];
    vec![
        whole.concat().into_bytes(),
        [line("opened", "a", 1, true), line("opened", "a", 1, true), line("closed", "a", 2, false)]
            .concat()
            .into_bytes(),
        [line("closed", "a", 9, true), line("opened", "b", 10, true), line("closed", "b", 11, false)]
            .concat()
            .into_bytes(),
        b"{}\n[]\n\n{\"time\":\"x\",\"event\":\"opened\"}\n".to_vec(),
    ]
}
