//! The text format of Prometheus (version 0.0.4), which every collector of metrics reads.
use super::number::Distribution;
use std::fmt::{Display, Write};

/// The content type of the format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Rises, from 0 at the start of the process.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Values by size.
    Histogram,
}

/// Writes families, each with all its samples before the next one.
#[derive(Debug, Default)]
pub(super) struct Text(String);

type Labels<'a> = &'a [(&'a str, &'a str)];

impl Text {
    /// Begins a family.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    /// A family of one sample without labels.
    pub(super) fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// A sample of the family that was begun.
    pub(super) fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        let labels = written(labels);
        self.line(format_args!("{name}{labels} {value}"));
    }

    /// A histogram of the current family. `unit`: how many recorded units are one unit of the output.
    pub(super) fn histogram(&mut self, name: &str, labels: Labels<'_>, seen: &Distribution, unit: f64) {
        let mut so_far = 0;
        let bounds = seen.bounds.iter().map(|&bound| (bound as f64 / unit).to_string());
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(&seen.buckets) {
            so_far += count;
            let labels = written(&[labels, &[("le", &bound)]].concat());
            self.line(format_args!("{name}_bucket{labels} {so_far}"));
        }
        let labels = written(labels);
        self.line(format_args!("{name}_sum{labels} {}\n{name}_count{labels} {so_far}", seen.sum as f64 / unit));
    }

    /// All that was written.
    pub(super) fn finish(self) -> String {
        self.0
    }

    fn line(&mut self, line: impl Display) {
        writeln!(self.0, "{line}").expect("a string takes all");
    }
}

fn written(labels: Labels<'_>) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let escape = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
    format!("{{{}}}", labels.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::metrics::number::Histogram;

    #[test]
    fn a_histogram_counts_what_is_at_or_below_each_bound() {
        let histogram = Histogram::new(&[500_000, 1_000_000_000]);
        [1, 2, 600_000, 2_000_000_000].iter().for_each(|&value| histogram.observe(value));
        let mut text = Text::default();
        text.family("x_seconds", Kind::Histogram, "Help.");
        text.histogram("x_seconds", &[("rpc", "a\"b\\")], &histogram.read(), 1e9);
        let expected = r#"# HELP x_seconds Help.
# TYPE x_seconds histogram
x_seconds_bucket{rpc="a\"b\\",le="0.0005"} 2
x_seconds_bucket{rpc="a\"b\\",le="1"} 3
x_seconds_bucket{rpc="a\"b\\",le="+Inf"} 4
x_seconds_sum{rpc="a\"b\\"} 2.000600003
x_seconds_count{rpc="a\"b\\"} 4
"#;
        assert_eq!(text.finish(), expected);
    }
}
