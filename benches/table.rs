//! A Markdown table: a row for each figure, a column for each target, ratios to the first one; and the goals below it.
use crate::measure::median;
use std::fmt;

/// The figures of a benchmark.
#[derive(Default)]
pub(crate) struct Table {
    title: String,
    columns: Vec<String>,
    rows: Vec<Row>,
    goals: Vec<Goal>,
    notes: Vec<String>,
}

struct Row {
    case: String,
    metric: String,
    /// For each column, the value of each run.
    cells: Vec<Vec<f64>>,
}

struct Goal {
    text: String,
    /// The value that was reached, and whether it meets the goal; `None`: not measured.
    reached: Option<(f64, bool)>,
}

/// A cell of a table: case, metric, column.
pub(crate) type Cell<'a> = (&'a str, &'a str, &'a str);

impl Table {
    pub(crate) fn new<C: Into<String>>(title: impl Into<String>, columns: impl IntoIterator<Item = C>) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Table { title: title.into(), columns, ..Table::default() }
    }

    /// Adds the value of one run.
    pub(crate) fn add(&mut self, (case, metric, column): Cell<'_>, value: f64) {
        let column = self.columns.iter().position(|name| name == column).expect("a column of this table");
        let row = match self.rows.iter().position(|row| row.case == case && row.metric == metric) {
            Some(row) => &mut self.rows[row],
            None => {
                let cells = vec![Vec::new(); self.columns.len()];
                self.rows.push(Row { case: case.to_owned(), metric: metric.to_owned(), cells });
                self.rows.last_mut().expect("just pushed")
            }
        };
        row.cells[column].push(value);
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// A figure must be at most `most`, in `unit`.
    pub(crate) fn goal_at_most(&mut self, what: &str, cell: Cell<'_>, most: f64, unit: &str) {
        let value = self.cell(cell).map(median);
        let text = format!("{what}: at most {} {unit}", number(most));
        self.goals.push(Goal { text, reached: value.map(|value| (value, value <= most)) });
    }

    /// A figure must be at most `most` times that of `other`.
    pub(crate) fn goal_at_most_times(&mut self, what: &str, cell: Cell<'_>, most: f64, other: &str) {
        let ratio = self.ratio(cell, other);
        let text = format!("{what}: at most {most} x {other}");
        self.goals.push(Goal { text, reached: ratio.map(|ratio| (ratio, ratio <= most)) });
    }

    /// A figure must be at least `least` times that of `other`.
    pub(crate) fn goal_at_least_times(&mut self, what: &str, cell: Cell<'_>, least: f64, other: &str) {
        let ratio = self.ratio(cell, other);
        let text = format!("{what}: at least {least} x {other}");
        self.goals.push(Goal { text, reached: ratio.map(|ratio| (ratio, ratio >= least)) });
    }

    fn cell(&self, (case, metric, column): Cell<'_>) -> Option<&[f64]> {
        let column = self.columns.iter().position(|name| name == column)?;
        let row = self.rows.iter().find(|row| row.case == case && row.metric == metric)?;
        Some(&row.cells[column][..]).filter(|values| !values.is_empty())
    }

    fn ratio(&self, (case, metric, column): Cell<'_>, other: &str) -> Option<f64> {
        Some(ratio(self.cell((case, metric, column))?, self.cell((case, metric, other))?))
    }
}

/// The median of the ratios of the runs: both values of a run were measured under the same load.
fn ratio(values: &[f64], others: &[f64]) -> f64 {
    median(&values.iter().zip(others).map(|(value, other)| value / other).collect::<Vec<_>>())
}

/// At most four digits, or all before the decimal point.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        _ if value == value.trunc() => 0,
        above if above >= 100.0 => 0,
        above if above >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## {}\n", self.title)?;
        writeln!(f, "| case | figure | {} |", self.columns.join(" | "))?;
        writeln!(f, "| --- | --- |{}", " ---: |".repeat(self.columns.len()))?;
        for row in &self.rows {
            write!(f, "| {} | {} |", row.case, row.metric)?;
            let first = &row.cells[0];
            for (column, values) in row.cells.iter().enumerate() {
                match (values.is_empty(), column == 0 || first.is_empty()) {
                    (true, _) => write!(f, " - |")?,
                    (_, true) => write!(f, " {} |", number(median(values)))?,
                    _ => write!(f, " {} ({:.2}x) |", number(median(values)), ratio(values, first))?,
                }
            }
            writeln!(f)?;
        }
        if !self.goals.is_empty() {
            writeln!(f, "\n| goal | reached | |\n| --- | ---: | --- |")?;
        }
        for Goal { text, reached } in &self.goals {
            match reached {
                Some((value, met)) => {
                    writeln!(f, "| {text} | {} | {} |", number(*value), if *met { "met" } else { "**missed**" })?;
                }
                None => writeln!(f, "| {text} | - | not measured |")?,
            }
        }
        for note in &self.notes {
            writeln!(f, "\n{note}")?;
        }
        Ok(())
    }
}
