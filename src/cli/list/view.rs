//! `list --watch` as lines of text, for a terminal of some size or without one. Pure.
//!
//! 1. No line is wider than the terminal, and there are no more lines than it has.
//! 2. Text from other programs is escaped.
use super::super::{duration, format, table};
use super::board::{Row, lease_left};
use crate::client::Elicitation;
use crate::escape::escaped;
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

/// Narrower than this, there is no space for the watchers and the holder beside the reason.
const NARROW: usize = 60;

/// With fewer lines, none is left empty.
const ROOMY: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) lines: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) style: Style,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Title,
    Header,
    Warning,
    /// The connection is lost.
    Lost,
    /// The last known states when the connection was lost.
    Old,
    Hint,
}

/// The content of the screen.
pub(super) struct View<'a> {
    /// In their order.
    pub(super) rows: &'a [Row],
    /// The coordinator.
    pub(super) address: &'a str,
    /// While the connection is lost: since when, and why.
    pub(super) lost: Option<&'a str>,
}

impl View<'_> {
    /// The lines of a screen.
    pub(super) fn lines(&self, size: Size) -> Vec<Line> {
        let line = |text: &str, style| Line { text: table::cut(text, size.columns), style };
        let mut lines = vec![Line { text: self.title(size.columns), style: Style::Title }];
        lines.extend(self.lost.map(|lost| line(&escaped(&format!("Connection lost, {lost}")), Style::Lost)));
        lines.extend(unwatched(self.rows).map(|text| line(&text, Style::Warning)));
        if !self.rows.is_empty() {
            if size.lines >= ROOMY {
                lines.push(line("", Style::Plain));
            }
            lines.extend(self.table(size, size.lines.saturating_sub(lines.len())));
        }
        lines.truncate(size.lines);
        lines
    }

    /// `2 threads paused, 3 open elicitations            127.0.0.1:7420`
    fn title(&self, columns: usize) -> String {
        let (totals, address) = (totals(self.rows), escaped(self.address));
        match columns.checked_sub(totals.width() + address.width()).filter(|gap| *gap > 2) {
            Some(gap) => totals + &" ".repeat(gap) + &address,
            None => table::cut(&totals, columns),
        }
    }

    /// At most `space` lines, the last of which says how many rows are missing.
    fn table(&self, size: Size, space: usize) -> Vec<Line> {
        let count: usize = self.rows.iter().map(|row| row.state.elicitations.len().max(1)).sum();
        let shown = if count < space { count } else { space.saturating_sub(2) };
        let rows =
            self.rows.iter().flat_map(|row| cells(row).into_iter().map(move |cells| (cells, has_no_watcher(row))));
        let (cells, unwatched): (Vec<_>, Vec<_>) = rows.take(shown).unzip();
        let styles = unwatched.into_iter().map(|unwatched| match unwatched {
            _ if self.lost.is_some() => Style::Old,
            true => Style::Warning,
            false => Style::Plain,
        });
        let text = render(&cells, Some(size.columns));
        let styled = text.lines().zip([Style::Header].into_iter().chain(styles));
        let mut lines: Vec<_> = styled.map(|(text, style)| Line { text: text.to_owned(), style }).collect();
        if shown < count {
            let hidden = format!(
                "{} not shown: the terminal has too few lines",
                format::plural((count - shown) as u64, "more row")
            );
            lines.push(Line { text: table::cut(&hidden, size.columns), style: Style::Hint });
        }
        lines
    }
}

/// A complete table, headed by `time`, for a file or a pipe. It ends with an empty line.
pub(super) fn text(rows: &[Row], time: &str) -> String {
    let cells: Vec<_> = rows.iter().flat_map(cells).collect();
    let table = if cells.is_empty() { String::new() } else { render(&cells, None) };
    let warning = unwatched(rows).map_or(String::new(), |text| text + "\n");
    format!("{time}  {}\n{warning}{table}\n", totals(rows))
}

fn totals(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "No thread is paused.".into();
    }
    let open = rows.iter().map(|row| u64::from(row.state.count)).sum();
    let threads = format::plural(rows.len() as u64, "thread");
    format!("{threads} paused, {}.", format::plural(open, "open elicitation"))
}

fn has_no_watcher(row: &Row) -> bool {
    row.watchers == Some(0)
}

/// The threads whose pause nobody notices.
fn unwatched(rows: &[Row]) -> Option<String> {
    /// More names than that do not help.
    const NAMED: usize = 10;
    let unwatched: Vec<_> = rows.iter().filter(|row| has_no_watcher(row)).collect();
    let names: Vec<_> = unwatched.iter().take(NAMED).map(|row| escaped(&row.state.thread_id)).collect();
    let more = if unwatched.len() > NAMED { format!(" and {} more", unwatched.len() - NAMED) } else { String::new() };
    (!names.is_empty()).then(|| format!("Watched by no exec server: {}{more}", names.join(", ")))
}

fn render(rows: &[[String; 6]], width: Option<usize>) -> String {
    match width {
        Some(width) if width < NARROW => {
            let rows: Vec<_> = rows
                .iter()
                .map(|[thread, paused, lease, _, holder, reason]| {
                    let reason = if reason.is_empty() { holder } else { reason };
                    [thread, paused, lease, reason].map(String::clone)
                })
                .collect();
            table::render(["THREAD", "PAUSED", "LEASE", "REASON"], &rows, Some(width))
        }
        _ => table::render(["THREAD", "PAUSED", "LEASE", "WATCHERS", "HOLDER", "REASON"], rows, width),
    }
}

/// One line for each elicitation; the cells of the thread are in the first one only.
fn cells(row: &Row) -> Vec<[String; 6]> {
    let state = &row.state;
    let watchers = row.watchers.map_or("-".to_owned(), |watchers| watchers.to_string());
    let mut thread = [escaped(&state.thread_id), whole_seconds(format::length(&state.paused_for)), watchers];
    let mut line = |elicitation: &Elicitation| {
        let [id, paused, watchers] = std::mem::take(&mut thread);
        let lease = lease_left(state, elicitation).map_or("-".to_owned(), whole_seconds);
        [id, paused, lease, watchers, escaped(&elicitation.holder), escaped(&elicitation.reason)]
    };
    match &state.elicitations[..] {
        [] => vec![line(&Elicitation::default())],
        elicitations => elicitations.iter().map(line).collect(),
    }
}

/// Without tenths, which would stand still between two redraws.
pub(super) fn whole_seconds(length: Duration) -> String {
    match length.as_secs() {
        seconds @ 0..10 => format!("{seconds}s"),
        _ => duration::show(length),
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
