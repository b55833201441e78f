//! The values of plots: series in `docs/figures/NAME.csv` (`series,x,y`, below a line about their origin).
use crate::measure::median;
use crate::result::Result;
use crate::settings::Settings;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The values of one plot.
pub(crate) struct Points {
    name: &'static str,
    /// Their origin: the day, the build, the machine.
    pub(crate) origin: String,
    pub(crate) series: Vec<Series>,
}

pub(crate) struct Series {
    pub(crate) name: String,
    /// For each x, the y of each run.
    values: Vec<(f64, Vec<f64>)>,
}

/// The directory of the values and of their plots.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/figures")
}

impl Points {
    pub(crate) fn new(name: &'static str) -> Self {
        Points { name, origin: String::new(), series: Vec::new() }
    }

    /// Adds the value of one run.
    pub(crate) fn add(&mut self, series: &str, x: f64, y: f64) {
        let values = match self.series.iter().position(|known| known.name == series) {
            Some(known) => &mut self.series[known].values,
            None => {
                self.series.push(Series { name: series.to_owned(), values: Vec::new() });
                &mut self.series.last_mut().expect("just pushed").values
            }
        };
        match values.iter_mut().find(|(known, _)| known.total_cmp(&x).is_eq()) {
            Some((_, runs)) => runs.push(y),
            None => values.push((x, vec![y])),
        }
    }

    /// Writes the medians of the runs, if `KEEP` is set.
    pub(crate) fn keep(&self, settings: &Settings) -> Result<()> {
        if !settings.keep {
            return Ok(());
        }
        let mut text = format!("# {}\nseries,x,y\n", origin(settings)?);
        for series in &self.series {
            for (x, y) in series.medians() {
                writeln!(text, "\"{}\",{},{}", series.name, rounded(x), rounded(y))?;
            }
        }
        std::fs::create_dir_all(directory())?;
        Ok(std::fs::write(directory().join(self.name).with_extension("csv"), text)?)
    }

    /// The values that were stored last; `None`: there are none.
    pub(crate) fn kept(name: &'static str) -> Result<Option<Self>> {
        let path = directory().join(name).with_extension("csv");
        let wrong = |what: &str| format!("{}: {what}; KEEP=1 benches/run writes it", path.display());
        if !path.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(&error.to_string()))?;
        let mut lines = text.lines();
        let origin = lines.next().and_then(|line| line.strip_prefix("# ")).ok_or_else(|| wrong("it has no origin"))?;
        let mut points = Points { origin: origin.to_owned(), ..Points::new(name) };
        for line in lines.skip(1) {
            let value = || {
                let (series, values) = line.strip_prefix('"')?.split_once("\",")?;
                let (x, y) = values.split_once(',')?;
                Some((series, x.parse().ok()?, y.parse().ok()?))
            };
            let (series, x, y) = value().ok_or_else(|| wrong(&format!("{line:?} is no value")))?;
            points.add(series, x, y);
        }
        Ok(Some(points))
    }
}

impl Series {
    pub(crate) fn medians(&self) -> impl Iterator<Item = (f64, f64)> {
        self.values.iter().map(|(x, runs)| (*x, median(runs)))
    }
}

fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn origin(settings: &Settings) -> Result<String> {
    let commit = Command::new("git").args(["describe", "--always", "--dirty"]).output()?;
    let commit = String::from_utf8(commit.stdout)?;
    let processors = std::thread::available_parallelism()?;
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or_default();
    let (day, runs) = (jiff::Timestamp::now().strftime("%Y-%m-%d"), settings.runs);
    Ok(format!("{day}, commit {}, {processors} processors, RUNS={runs}, load average {load} at the end", commit.trim()))
}
