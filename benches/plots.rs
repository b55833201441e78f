//! Plots the stored [`Points`], light and dark: `docs/figures/NAME-light.svg` and `-dark.svg`.
use crate::points::{Points, Series, directory};
use crate::result::Result;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::PathBuf;

struct Plot {
    name: &'static str,
    title: &'static str,
    x: Axis,
    y: Axis,
}

struct Axis {
    label: &'static str,
    scale: Scale,
}

#[derive(Clone, Copy)]
enum Scale {
    Linear,
    Log,
    /// The axis of 1 / (1 - share), labelled with the share: 90 %, 99 %, 99.9 % have the same distance.
    Nines,
}

const PLOTS: [Plot; 4] = [
    Plot {
        name: "calls",
        title: "Calls per second",
        x: Axis { label: "callers, each waiting for its answer", scale: Scale::Log },
        y: Axis { label: "calls/s", scale: Scale::Linear },
    },
    Plot {
        name: "call-latency",
        title: "From a call to its answer, 16 callers",
        x: Axis { label: "share of the calls", scale: Scale::Nines },
        y: Axis { label: "at most, microseconds", scale: Scale::Log },
    },
    Plot {
        name: "propagation",
        title: "From a call to the subscriber, 5,000 changes/s",
        x: Axis { label: "share of the changes", scale: Scale::Nines },
        y: Axis { label: "at most, microseconds", scale: Scale::Log },
    },
    Plot {
        name: "idle",
        title: "Memory of the server with idle watches",
        x: Axis { label: "watched threads", scale: Scale::Linear },
        y: Axis { label: "resident memory, MiB", scale: Scale::Linear },
    },
];

struct Theme {
    name: &'static str,
    background: RGBColor,
    text: RGBColor,
    grid: RGBColor,
    /// In the order of [`SERIES`].
    lines: [RGBColor; 6],
}

/// The colours of the pages that contain the plots.
const THEMES: [Theme; 2] = [
    Theme {
        name: "light",
        background: RGBColor(255, 255, 255),
        text: RGBColor(31, 35, 40),
        grid: RGBColor(222, 226, 230),
        lines: [
            RGBColor(110, 119, 129),
            RGBColor(9, 105, 218),
            RGBColor(26, 127, 55),
            RGBColor(130, 80, 223),
            RGBColor(154, 103, 0),
            RGBColor(207, 34, 46),
        ],
    },
    Theme {
        name: "dark",
        background: RGBColor(13, 17, 23),
        text: RGBColor(230, 237, 243),
        grid: RGBColor(48, 54, 61),
        lines: [
            RGBColor(139, 148, 158),
            RGBColor(88, 166, 255),
            RGBColor(63, 185, 80),
            RGBColor(188, 140, 255),
            RGBColor(210, 153, 34),
            RGBColor(255, 123, 114),
        ],
    },
];

/// The targets that are plotted, with their names.
const SERIES: [(&str, &str); 6] = [
    ("limit", "bare tonic server"),
    ("embedded", "pausewatch, durable"),
    ("memory", "pausewatch, memory store"),
    ("embedded, shared streams", "pausewatch, many threads on a stream"),
    ("embedded, Watch", "pausewatch, Watch"),
    ("redis, fsync", "Redis, appendfsync always"),
];

const SIZE: (u32, u32) = (760, 420);

/// Writes all plots.
pub(crate) fn draw() -> Result<()> {
    for (path, svg) in drawn()? {
        std::fs::write(path, svg)?;
    }
    Ok(())
}

/// An error if a plot differs from its values.
pub(crate) fn check() -> Result<()> {
    for (path, svg) in drawn()? {
        if std::fs::read_to_string(&path).ok() != Some(svg) {
            return Err(format!("{} does not show the values beside it: run benches/run plots", path.display()).into());
        }
    }
    Ok(())
}

fn drawn() -> Result<Vec<(PathBuf, String)>> {
    let mut all = Vec::new();
    for plot in &PLOTS {
        let Some(points) = Points::kept(plot.name)? else {
            eprintln!("{}: not drawn, because no values are kept; KEEP=1 benches/run measures them", plot.name);
            continue;
        };
        for theme in &THEMES {
            let mut svg = String::new();
            plot.draw(&points, theme, &mut svg)?;
            all.push((directory().join(format!("{}-{}.svg", plot.name, theme.name)), svg));
        }
    }
    Ok(all)
}

impl Plot {
    fn draw(&self, points: &Points, theme: &Theme, svg: &mut String) -> Result<()> {
        let values: Vec<_> = Self::shown(points).flat_map(|(_, series)| series.medians()).collect();
        let (x, y) =
            (self.x.range(values.iter().map(|value| value.0)), self.y.range(values.iter().map(|value| value.1)));
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&theme.background)?;
        let text = |size: u32| TextStyle::from(("sans-serif", size).into_font()).color(&theme.text);
        area.draw(&Text::new(self.title, (16, 12), text(19)))?;
        let origin = text(12).pos(Pos::new(HPos::Right, VPos::Bottom));
        area.draw(&Text::new(points.origin.clone(), (SIZE.0 as i32 - 16, SIZE.1 as i32 - 6), origin))?;
        let inner = area.margin(40, 22, 8, 24);
        let mut chart = ChartBuilder::on(&inner);
        chart.x_label_area_size(46).y_label_area_size(76);
        match (self.x.scale, self.y.scale) {
            (Scale::Linear, Scale::Linear) => self.lines(&mut chart.build_cartesian_2d(x, y)?, points, theme)?,
            (Scale::Linear, _) => self.lines(&mut chart.build_cartesian_2d(x, y.log_scale())?, points, theme)?,
            (_, Scale::Linear) => self.lines(&mut chart.build_cartesian_2d(x.log_scale(), y)?, points, theme)?,
            _ => self.lines(&mut chart.build_cartesian_2d(x.log_scale(), y.log_scale())?, points, theme)?,
        }
        area.present()?;
        Ok(())
    }

    /// The series that are plotted: the index in [`SERIES`], and the values.
    fn shown(points: &Points) -> impl Iterator<Item = (usize, &Series)> {
        let find = |name: &str| points.series.iter().find(|series| series.name == name);
        SERIES.iter().enumerate().filter_map(move |(place, (name, _))| Some((place, find(name)?)))
    }

    fn lines<'a, X, Y>(
        &self,
        chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
        points: &Points,
        theme: &Theme,
    ) -> Result<()>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let text = |size: u32| TextStyle::from(("sans-serif", size).into_font()).color(&theme.text);
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(self.x.label).y_desc(self.y.label).axis_desc_style(text(14)).label_style(text(13));
        let (x_number, y_number) = (|x: &f64| self.x.number(*x), |y: &f64| self.y.number(*y));
        mesh.x_label_formatter(&x_number).y_label_formatter(&y_number).y_labels(6);
        mesh.axis_style(theme.text).bold_line_style(theme.grid).light_line_style(TRANSPARENT).draw()?;
        for (place, series) in Self::shown(points) {
            let (label, color) = (SERIES[place].1, theme.lines[place]);
            let values: Vec<_> = series.medians().collect();
            let line = chart.draw_series(LineSeries::new(values.iter().copied(), color.stroke_width(2)))?;
            line.label(label).legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], color.stroke_width(3)));
            if !matches!(self.x.scale, Scale::Nines) {
                chart.draw_series(values.iter().map(|&value| Circle::new(value, 3, color.filled())))?;
            }
        }
        let mut legend = chart.configure_series_labels();
        // Here the legend covers no line, because all lines rise to the right.
        legend.position(SeriesLabelPosition::UpperLeft).margin(12).legend_area_size(32).label_font(text(14));
        legend.background_style(theme.background).border_style(theme.grid).draw()?;
        Ok(())
    }
}

impl Axis {
    fn range(&self, values: impl Iterator<Item = f64> + Clone) -> std::ops::Range<f64> {
        let (least, most) = (values.clone().fold(f64::MAX, f64::min), values.fold(f64::MIN, f64::max));
        match self.scale {
            Scale::Linear => 0.0..most * 1.05,
            Scale::Log => 10_f64.powf((least.log10() * 4.0).floor() / 4.0)..most * 1.2,
            Scale::Nines => 1.0..most,
        }
    }

    fn number(&self, value: f64) -> String {
        match self.scale {
            Scale::Nines => {
                let nines = value.log10().round().max(0.0) as usize;
                format!("{:.*} %", nines.saturating_sub(2), 100.0 * (1.0 - 1.0 / value))
            }
            Scale::Linear | Scale::Log => thousands(value),
        }
    }
}

/// A number with a comma before each three digits.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
