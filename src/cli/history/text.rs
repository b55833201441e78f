//! Ended pauses as a table: the last one first, a line for each elicitation, the one that ended the pause first.
use crate::cli::{duration, format, table};
use crate::client::Pause;
use crate::escape::escaped;
use std::time::Duration;

pub(super) fn text(pauses: &[Pause], width: Option<usize>) -> String {
    let rows: Vec<_> = pauses.iter().flat_map(rows).collect();
    let table = table::render(["ENDED", "THREAD", "PAUSED FOR", "ENDED BY", "HOLDER", "REASON"], &rows, width);
    let lengths = pauses.iter().map(|pause| format::length(&pause.duration));
    let total = lengths.fold(Duration::ZERO, Duration::saturating_add);
    format!("{table}\n{}, {} in all.\n", format::plural(pauses.len() as u64, "pause"), duration::show(total))
}

/// The cells of the pause are in its first row only.
fn rows(pause: &Pause) -> Vec<[String; 6]> {
    let ended = pause.end_time.as_ref().map(format::short_local_time).unwrap_or_default();
    let mut first = [ended, escaped(&pause.thread_id), format::length_text(&pause.duration)];
    let mut row = |ended_by, holder, reason| {
        let [ended, thread, length] = std::mem::take(&mut first);
        [ended, thread, length, ended_by, holder, reason]
    };
    let ended_by = |end| format::ended_by(end).unwrap_or("-").to_owned();
    let mut rows: Vec<_> = pause
        .elicitations
        .iter()
        .rev()
        .map(|one| row(ended_by(one.ended_by()), escaped(&one.holder), escaped(&one.reason)))
        .collect();
    if rows.is_empty() {
        rows.push(row(ended_by(pause.ended_by()), String::new(), String::new()));
    }
    if pause.omitted_elicitations > 0 {
        let mut row: [String; 6] = Default::default();
        row[5] = format!("({} more)", pause.omitted_elicitations);
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{ClosedElicitation, PauseEnd};

    fn elicitation(holder: &str, reason: &str, ended_by: PauseEnd) -> ClosedElicitation {
        let (holder, reason, ended_by) = (holder.into(), reason.into(), ended_by.into());
        ClosedElicitation { holder, reason, ended_by, ..Default::default() }
    }

    #[test]
    fn a_pause_has_a_line_for_each_elicitation_and_is_named_once() {
        let end = prost_types::Timestamp { seconds: 1_795_300_000, nanos: 0 };
        let end_time = Some(end);
        let pauses = [
            Pause {
                thread_id: "build".into(),
                end_time,
                duration: Some(prost_types::Duration { seconds: 75, nanos: 0 }),
                ended_by: PauseEnd::Expired.into(),
                elicitations: vec![
                    elicitation("git[7]", "Push?", PauseEnd::Decremented),
                    elicitation("npm[8]", "a\nb", PauseEnd::Expired),
                ],
                omitted_elicitations: 3,
                ..Default::default()
            },
            Pause { thread_id: "z".into(), end_time, ended_by: PauseEnd::MaxPause.into(), ..Default::default() },
        ];
        let ended = format::short_local_time(&end);
        assert_eq!(
            text(&pauses, None),
            format!(
                "\
ENDED                THREAD  PAUSED FOR  ENDED BY     HOLDER  REASON
{ended}  build   1m15s       expired      npm[8]  a\\nb
                                         decremented  git[7]  Push?
                                                              (3 more)
{ended}  z       0.0s        max_pause

2 pauses, 1m15s in all.
"
            )
        );
        for width in [30, 46, 80] {
            assert!(text(&pauses, Some(width)).lines().take(5).all(|line| line.chars().count() <= width), "{width}");
        }
    }
}
