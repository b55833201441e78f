//! How long people were waited for, by holder and reason.
use crate::cli::{duration, format, table};
use crate::client::{ClosedElicitation, Pause, PauseEnd};
use crate::escape::escaped;
use serde::Serialize;
use std::collections::HashMap;
use std::time::Duration;

/// The memory for the texts of the groups; what exceeds it becomes one group. A runaway tool may ask hundreds of
/// thousands of different questions.
const MAX_BYTES: usize = 32 << 20;
/// Bytes that a group takes beside its texts.
const GROUP_BYTES: usize = 256;

/// Totals of pauses.
#[derive(Default)]
pub(super) struct Summary {
    pauses: u64,
    paused: Duration,
    omitted: u64,
    groups: HashMap<(String, String), Group>,
    /// The group of those that exceeded the memory.
    others: Group,
    bytes: usize,
}

/// The elicitations of one holder with one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Group {
    count: u64,
    waited: Duration,
    longest: Duration,
    expired: u64,
    max_pause: u64,
    released: u64,
}

/// The form of JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pauses: u64,
    paused: String,
    /// Elicitations that are counted but not listed in their pauses.
    omitted_elicitations: u64,
    /// The longest wait first.
    groups: Vec<Row>,
    /// Groups beyond those; 0: there are no more.
    omitted_groups: usize,
    #[serde(skip)]
    total: Duration,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    holder: String,
    reason: String,
    count: u64,
    waited: String,
    longest: String,
    expired: u64,
    max_pause: u64,
    released: u64,
    #[serde(skip)]
    numbers: Group,
}

impl Summary {
    pub(super) fn add(&mut self, pause: &Pause) {
        self.pauses += 1;
        self.paused = self.paused.saturating_add(format::length(&pause.duration));
        self.omitted += u64::from(pause.omitted_elicitations);
        for elicitation in &pause.elicitations {
            self.group(elicitation).add(elicitation);
        }
    }

    fn group(&mut self, elicitation: &ClosedElicitation) -> &mut Group {
        let key = (without_process_id(&elicitation.holder), elicitation.reason.clone());
        if !self.groups.contains_key(&key) {
            let bytes = self.bytes + GROUP_BYTES + key.0.len() + key.1.len();
            if bytes > MAX_BYTES {
                return &mut self.others;
            }
            self.bytes = bytes;
        }
        self.groups.entry(key).or_default()
    }

    /// At most `limit` groups, those with the longest waits.
    pub(super) fn report(self, limit: usize) -> Report {
        let mut rows: Vec<_> =
            self.groups.into_iter().map(|((holder, reason), group)| row(holder, reason, group)).collect();
        if self.others.count > 0 {
            rows.push(row("(others)".into(), String::new(), self.others));
        }
        rows.sort_by(|a, b| {
            b.numbers.waited.cmp(&a.numbers.waited).then_with(|| (&a.holder, &a.reason).cmp(&(&b.holder, &b.reason)))
        });
        let omitted_groups = rows.len().saturating_sub(limit);
        rows.truncate(limit);
        Report {
            pauses: self.pauses,
            paused: json(self.paused),
            omitted_elicitations: self.omitted,
            groups: rows,
            omitted_groups,
            total: self.paused,
        }
    }
}

impl Group {
    fn add(&mut self, elicitation: &ClosedElicitation) {
        let waited = format::since_epoch(&elicitation.end_time);
        let waited = waited.saturating_sub(format::since_epoch(&elicitation.create_time));
        self.count += 1;
        self.waited = self.waited.saturating_add(waited);
        self.longest = self.longest.max(waited);
        match elicitation.ended_by() {
            PauseEnd::Expired => self.expired += 1,
            PauseEnd::MaxPause => self.max_pause += 1,
            PauseEnd::Released => self.released += 1,
            PauseEnd::Decremented | PauseEnd::Unspecified => {}
        }
    }
}

/// `ask[29620]@laptop` as `ask@laptop`: each run of a program is another process.
fn without_process_id(holder: &str) -> String {
    let id = holder.match_indices('[').find_map(|(from, _)| {
        let length = holder[from..].find(']')?;
        let digits = &holder[from + 1..from + length];
        (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(from..=from + length)
    });
    let mut holder = holder.to_owned();
    id.into_iter().for_each(|id| holder.replace_range(id, ""));
    holder
}

fn row(holder: String, reason: String, numbers: Group) -> Row {
    let Group { count, waited, longest, expired, max_pause, released } = numbers;
    let (waited, longest) = (json(waited), json(longest));
    Row { holder, reason, count, waited, longest, expired, max_pause, released, numbers }
}

/// As the proto's JSON has durations.
fn json(duration: Duration) -> String {
    prost_types::Duration::try_from(duration).map_or_else(|_| String::new(), |duration| duration.to_string())
}

impl Report {
    /// For people.
    pub(super) fn text(&self, width: Option<usize>) -> String {
        let rows: Vec<_> = self.groups.iter().map(cells).collect();
        let table = table::render(["WAITED", "COUNT", "LONGEST", "EXPIRED", "HOLDER", "REASON"], &rows, width);
        let more = match self.omitted_groups {
            0 => String::new(),
            more => format!(" {} with shorter waits not shown.", format::plural(more as u64, "row")),
        };
        format!("{table}\n{}, {} in all.{more}\n", format::plural(self.pauses, "pause"), duration::show(self.total))
    }
}

fn cells(row: &Row) -> [String; 6] {
    let Group { count, waited, longest, expired, max_pause, .. } = row.numbers;
    [
        duration::show(waited),
        count.to_string(),
        duration::show(longest),
        (expired + max_pause).to_string(),
        escaped(&row.holder),
        escaped(&row.reason),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost_types::Timestamp;

    fn elicitation(holder: &str, reason: &str, seconds: i64, ended_by: PauseEnd) -> ClosedElicitation {
        ClosedElicitation {
            holder: holder.into(),
            reason: reason.into(),
            create_time: Some(Timestamp { seconds: 1_000, nanos: 0 }),
            end_time: Some(Timestamp { seconds: 1_000 + seconds, nanos: 500_000_000 }),
            ended_by: ended_by.into(),
            ..Default::default()
        }
    }

    fn summary() -> Summary {
        let mut summary = Summary::default();
        let pause = |seconds, elicitations, omitted_elicitations| Pause {
            duration: Some(prost_types::Duration { seconds, nanos: 0 }),
            elicitations,
            omitted_elicitations,
            ..Default::default()
        };
        summary.add(&pause(
            60,
            vec![
                elicitation("git[7]@laptop", "Push?", 50, PauseEnd::Decremented),
                elicitation("npm", "Publish?", 60, PauseEnd::Expired),
            ],
            3,
        ));
        summary.add(&pause(20, vec![elicitation("git[81]@laptop", "Push?", 20, PauseEnd::MaxPause)], 0));
        summary
    }

    #[test]
    fn waits_are_added_up_by_holder_and_reason_the_longest_first() {
        assert_eq!(
            summary().report(10).text(None),
            "\
WAITED  COUNT  LONGEST  EXPIRED  HOLDER      REASON
1m11s   2      50s      1        git@laptop  Push?
1m00s   1      1m00s    1        npm         Publish?

2 pauses, 1m20s in all.
"
        );
        let one = summary().report(1).text(None);
        assert!(one.ends_with("in all. 1 row with shorter waits not shown.\n") && !one.contains("npm"), "{one}");
    }

    #[test]
    fn json_has_the_numbers() {
        let json = serde_json::to_value(summary().report(1)).unwrap();
        let expected = serde_json::json!({
            "pauses": 2, "paused": "80s", "omittedElicitations": 3, "omittedGroups": 1,
            "groups": [{
                "holder": "git@laptop", "reason": "Push?", "count": 2, "waited": "71s", "longest": "50.500s",
                "expired": 0, "maxPause": 1, "released": 0,
            }],
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn a_process_id_is_no_part_of_a_holder() {
        for (holder, without) in
            [("ask[29620]@laptop", "ask@laptop"), ("a[b][1][2]", "a[b][2]"), ("a[]", "a[]"), ("[é", "[é")]
        {
            assert_eq!(without_process_id(holder), without);
        }
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_lost() {
        let mut summary = Summary::default();
        for i in 0..100_000 {
            let elicitations = vec![elicitation("h", &format!("{i:0>400}"), 1, PauseEnd::Decremented)];
            summary.add(&Pause { elicitations, ..Default::default() });
        }
        assert!(summary.bytes <= MAX_BYTES);
        let report = summary.report(usize::MAX);
        assert!((20_000..60_000).contains(&report.groups.len()), "{}", report.groups.len());
        assert_eq!(report.groups[0].holder, "(others)");
        assert_eq!(report.groups.iter().map(|row| row.count).sum::<u64>(), 100_000);
    }
}
