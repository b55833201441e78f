//! The pauses that an audit trail records, in the order in which they ended. Their lengths are differences of the
//! server's wall clock, because the trail has no other clock.
//!
//! - A1: an invalid line changes nothing, and is an error.
//! - A2: a pause is reported only if the trail has all of its changes; the others are counted ([`Gaps`]).
//! - A3: memory is bounded, whatever the lines contain ([`MAX_OPEN_BYTES`]).
use super::time::wire;
use crate::client::{ClosedElicitation, Pause, PauseEnd};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::HashMap;

/// Memory for what is open: 100,000 elicitations with texts of 400 bytes.
const MAX_OPEN_BYTES: usize = 64 << 20;
/// The memory of an open pause besides its texts, and of each of its elicitations, in bytes.
const ENTRY_BYTES: usize = 256;
/// The maximum number of elicitations that are reported per pause, the same as the server's.
const MAX_ELICITATIONS: usize = 16;

/// A line of the trail.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(borrow, default)]
    thread_id: Cow<'a, str>,
    #[serde(borrow, default)]
    elicitation_id: Cow<'a, str>,
    revision: Option<u64>,
    paused: Option<bool>,
    #[serde(borrow, default)]
    holder: Cow<'a, str>,
    #[serde(borrow, default)]
    reason: Cow<'a, str>,
    #[serde(borrow, default)]
    ended_by: Cow<'a, str>,
    lines: Option<u64>,
}

/// The time of a line, if it has one.
pub(super) fn time_of(line: &[u8]) -> Option<jiff::Timestamp> {
    serde_json::from_slice::<Line<'_>>(line).ok()?.time.parse().ok()
}

/// The parts that are missing from the trail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Pauses whose end is in the trail, but not all that came before.
    pub without_start: u64,
    /// Pauses that were followed no further, because changes of their thread are missing.
    pub without_end: u64,
    /// Lines that the server could not write.
    pub unwritten_lines: u64,
}

/// A thread that is paused.
struct OpenPause {
    since: jiff::Timestamp,
    revision: u64,
    open: Vec<Opened>,
    closed: Vec<ClosedElicitation>,
    omitted: u32,
    is_complete: bool,
    bytes: usize,
}

struct Opened {
    id: String,
    holder: String,
    reason: String,
    time: jiff::Timestamp,
}

/// Reads the trail line by line, from the oldest.
#[derive(Default)]
pub struct Replay {
    threads: HashMap<String, OpenPause>,
    bytes: usize,
    gaps: Gaps,
}

impl Replay {
    /// Reads the next line. Returns the pause that it ends, if any.
    ///
    /// # Errors
    /// It is not a line of an audit trail; it has changed nothing.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Pause>, String> {
        let line: Line<'_> =
            serde_json::from_slice(line).map_err(|error| format!("no line of an audit trail: {error}"))?;
        let time: jiff::Timestamp = line.time.parse().map_err(|_| "its time is invalid".to_owned())?;
        let by_event = match &*line.event {
            "opened" => return self.opened(&line, time).map(|()| None),
            "closed" => PauseEnd::Decremented,
            "lease_ended" => PauseEnd::Expired,
            "pause_capped" => PauseEnd::MaxPause,
            "renewed" | "server_started" => return Ok(None),
            "lines_missing" => {
                self.gaps.unwritten_lines = self.gaps.unwritten_lines.saturating_add(line.lines.unwrap_or(0));
                return Ok(None);
            }
            _ => return Err("this version does not know its event".into()),
        };
        let how = if line.ended_by == "released" { PauseEnd::Released } else { by_event };
        self.closed(&line, time, how)
    }

    /// The parts that were missing so far.
    pub fn gaps(&self) -> Gaps {
        self.gaps
    }

    /// Threads that are paused after the last line.
    pub fn still_paused(&self) -> usize {
        self.threads.len()
    }

    fn opened(&mut self, line: &Line<'_>, time: jiff::Timestamp) -> Result<(), String> {
        let revision = self.change(line)?;
        let texts = line.elicitation_id.len() + line.holder.len() + line.reason.len();
        let is_new = !self.threads.contains_key(&*line.thread_id);
        let bytes = ENTRY_BYTES + texts + if is_new { ENTRY_BYTES + line.thread_id.len() } else { 0 };
        let fits = self.bytes + bytes <= MAX_OPEN_BYTES;
        if is_new && !fits {
            // Its end will be one without a start.
            return Ok(());
        }
        let pause = self.threads.entry(line.thread_id.clone().into_owned()).or_insert_with(|| OpenPause {
            since: time,
            revision,
            open: Vec::new(),
            closed: Vec::new(),
            omitted: 0,
            is_complete: true,
            bytes: 0,
        });
        pause.revision = revision;
        if !fits {
            pause.is_complete = false;
            return Ok(());
        }
        self.bytes += bytes;
        pause.bytes += bytes;
        let [id, holder, reason] =
            [&line.elicitation_id, &line.holder, &line.reason].map(|text| text.clone().into_owned());
        pause.open.push(Opened { id, holder, reason, time });
        Ok(())
    }

    fn closed(&mut self, line: &Line<'_>, time: jiff::Timestamp, how: PauseEnd) -> Result<Option<Pause>, String> {
        let is_paused = line.paused.ok_or("it does not say whether the thread is paused")?;
        let revision = self.change(line)?;
        let Some(pause) = self.threads.get_mut(&*line.thread_id) else {
            self.gaps.without_start += u64::from(!is_paused);
            return Ok(None);
        };
        pause.revision = revision;
        match pause.open.iter().position(|open| open.id == line.elicitation_id) {
            None => pause.is_complete = false,
            Some(place) => {
                let closed = pause.open.remove(place);
                // One place is kept free for the last elicitation.
                if is_paused && pause.closed.len() + 1 >= MAX_ELICITATIONS {
                    let bytes = ENTRY_BYTES + closed.id.len() + closed.holder.len() + closed.reason.len();
                    pause.bytes -= bytes;
                    self.bytes -= bytes;
                    pause.omitted = pause.omitted.saturating_add(1);
                } else {
                    pause.closed.push(ClosedElicitation {
                        elicitation_id: closed.id,
                        reason: closed.reason,
                        holder: closed.holder,
                        create_time: Some(wire(closed.time)),
                        end_time: Some(wire(time)),
                        ended_by: how.into(),
                    });
                }
            }
        }
        if is_paused {
            return Ok(None);
        }
        let Some(pause) = self.forget(&line.thread_id) else { return Ok(None) };
        if !pause.is_complete || !pause.open.is_empty() {
            self.gaps.without_start += 1;
            return Ok(None);
        }
        Ok(Some(Pause {
            thread_id: line.thread_id.clone().into_owned(),
            start_time: Some(wire(pause.since)),
            end_time: Some(wire(time)),
            duration: time.duration_since(pause.since).unsigned_abs().try_into().ok().filter(|_| time >= pause.since),
            ended_by: how.into(),
            elicitations: pause.closed,
            omitted_elicitations: pause.omitted,
        }))
    }

    /// Checks the fields that every change has, and returns its revision. If the revision does not follow that of an
    /// open pause, the pause is dropped: lines are missing, or a server with a memory store was restarted.
    fn change(&mut self, line: &Line<'_>) -> Result<u64, String> {
        let revision = line.revision.ok_or("it has no revision")?;
        if line.thread_id.is_empty() || line.elicitation_id.is_empty() {
            return Err("it names no thread or no elicitation".into());
        }
        let known = self.threads.get(&*line.thread_id).map(|pause| pause.revision);
        if known.is_some_and(|known| known.checked_add(1) != Some(revision)) {
            self.gaps.without_end += 1;
            self.forget(&line.thread_id);
        }
        Ok(revision)
    }

    fn forget(&mut self, thread_id: &str) -> Option<OpenPause> {
        let pause = self.threads.remove(thread_id)?;
        self.bytes -= pause.bytes;
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line: second, event, thread, elicitation, revision, whether paused.
    fn line(second: u32, event: &str, thread: &str, elicitation: &str, revision: u64, paused: bool) -> String {
        format!(
            r#"{{"time":"2026-11-22T08:00:{second:02}.5Z","event":"{event}","by":"me","thread_id":"{thread}","elicitation_id":"{elicitation}","revision":{revision},"paused":{paused},"holder":"h","reason":"r {elicitation}"}}"#
        )
    }

    fn replay(lines: &[String]) -> (Vec<Pause>, Replay) {
        let mut replay = Replay::default();
        let pauses = lines.iter().filter_map(|line| replay.line(line.as_bytes()).unwrap()).collect();
        (pauses, replay)
    }

    #[test]
    fn a_pause_is_told_with_its_elicitations() {
        let (pauses, replay) = replay(&[
            r#"{"time":"2026-11-22T08:00:00Z","event":"server_started","version":"9"}"#.to_owned(),
            line(1, "opened", "t", "a", 7, true),
            line(2, "opened", "u", "x", 3, true),
            line(3, "opened", "t", "b", 8, true),
            r#"{"time":"2026-11-22T08:00:03Z","event":"renewed","thread_id":"t","elicitation_id":"a"}"#.to_owned(),
            line(4, "lease_ended", "t", "a", 9, true),
            line(9, "pause_capped", "t", "b", 10, false),
        ]);
        let [pause] = &pauses[..] else { panic!("{pauses:?}") };
        assert_eq!((pause.thread_id.as_str(), pause.ended_by()), ("t", PauseEnd::MaxPause));
        assert_eq!(pause.duration.unwrap(), prost_types::Duration { seconds: 8, nanos: 0 });
        assert_eq!(pause.start_time.unwrap().to_string(), "2026-11-22T08:00:01.500Z");
        let reported: Vec<_> = pause
            .elicitations
            .iter()
            .map(|one| (one.elicitation_id.as_str(), one.reason.as_str(), one.ended_by()))
            .collect();
        assert_eq!(reported, [("a", "r a", PauseEnd::Expired), ("b", "r b", PauseEnd::MaxPause)]);
        assert_eq!((replay.gaps(), replay.still_paused()), (Gaps::default(), 1));
    }

    #[test]
    fn a_release_is_told_from_a_decrement() {
        let released = line(2, "closed", "t", "a", 2, false).replace(r#""by":"me""#, r#""ended_by":"released""#);
        let (pauses, _) = replay(&[line(1, "opened", "t", "a", 1, true), released]);
        assert_eq!(pauses[0].ended_by(), PauseEnd::Released);
        let (pauses, _) = replay(&[line(1, "opened", "t", "a", 1, true), line(2, "closed", "t", "a", 2, false)]);
        assert_eq!(pauses[0].ended_by(), PauseEnd::Decremented);
    }

    #[test]
    fn pauses_that_the_trail_does_not_have_whole_are_counted() {
        // The first files are gone: the pause had begun, here with an elicitation that is not in the trail.
        let begun = [line(1, "opened", "t", "b", 6, true), line(2, "closed", "t", "b", 7, true)];
        let (pauses, replayed) = replay(&[&begun[..], &[line(3, "closed", "t", "a", 8, false)]].concat());
        assert_eq!((pauses.len(), replayed.gaps().without_start), (0, 1));
        let (pauses, replayed) = replay(&[line(3, "closed", "t", "a", 8, false)]);
        assert_eq!((pauses.len(), replayed.gaps().without_start), (0, 1));
        // A server that keeps nothing has started again, and a server was killed before it had written all lines.
        for next in [1, 3] {
            let (pauses, replayed) = replay(&[
                line(1, "opened", "t", "a", 1, true),
                line(2, "opened", "t", "b", next, true),
                line(3, "closed", "t", "b", next + 1, false),
            ]);
            assert_eq!((pauses.len(), replayed.gaps().without_end), (1, 1), "{next}");
            assert_eq!(pauses[0].duration.unwrap().seconds, 1);
        }
        let (_, replayed) =
            replay(&[r#"{"time":"2026-11-22T08:00:00Z","event":"lines_missing","lines":5}"#.to_owned()]);
        assert_eq!(replayed.gaps().unwritten_lines, 5);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_pause_negative() {
        let (pauses, _) = replay(&[line(9, "opened", "t", "a", 1, true), line(2, "closed", "t", "a", 2, false)]);
        assert_eq!(pauses[0].duration, None);
    }

    #[test]
    fn a_damaged_line_is_refused_and_changes_nothing() {
        let good = line(2, "closed", "t", "a", 2, false);
        let mut replay = Replay::default();
        replay.line(line(1, "opened", "t", "a", 1, true).as_bytes()).unwrap();
        for bad in [
            "",
            "{}",
            "[]",
            &good[..good.len() - 1],
            &good.replace("closed", "burnt"),
            &good.replace(r#""revision":2"#, r#""revision":-2"#),
            &good.replace(r#""revision":2,"#, ""),
            &good.replace(r#""paused":false,"#, ""),
            &good.replace(r#""thread_id":"t","#, ""),
            &good.replace("2026-11-22T", ""),
        ] {
            replay.line(bad.as_bytes()).expect_err(bad);
        }
        assert!(replay.line(b"\xff\xfe").is_err());
        assert!(replay.line(good.as_bytes()).unwrap().is_some());
    }

    #[test]
    fn memory_is_bounded_though_nothing_is_ever_closed() {
        let mut replay = Replay::default();
        let reason = "x".repeat(50_000);
        for i in 0..2_000 {
            let opened = line(1, "opened", &format!("t{i}"), &reason, 1, true);
            assert_eq!(replay.line(opened.as_bytes()), Ok(None));
            assert!(replay.bytes <= MAX_OPEN_BYTES);
        }
        assert!((500..1_000).contains(&replay.still_paused()), "{}", replay.still_paused());
        assert_eq!(replay.line(line(2, "closed", "t1999", "a", 2, false).as_bytes()), Ok(None));
        assert_eq!(replay.gaps().without_start, 1);
    }

    #[test]
    fn a_pause_tells_sixteen_elicitations_and_counts_the_rest() {
        let opened = (0..20).map(|i| line(1, "opened", "t", &format!("e{i}"), i + 1, true));
        let closed = (0..20).map(|i| line(2, "closed", "t", &format!("e{i}"), i + 21, i < 19));
        let (pauses, _) = replay(&opened.chain(closed).collect::<Vec<_>>());
        let reported: Vec<_> = pauses[0].elicitations.iter().map(|one| one.elicitation_id.clone()).collect();
        assert_eq!((reported.len(), reported[15].as_str(), pauses[0].omitted_elicitations), (16, "e19", 4));
    }
}
