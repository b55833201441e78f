//! Measurements: latencies, and CPU time and memory of a process from /proc.
use crate::result::Result;
use std::time::Duration;

/// Ticks of `/proc/PID/stat` per second: the same on every Linux (USER_HZ in proc(5)).
const TICKS: f64 = 100.0;

/// Latencies, stored individually: exact, and a few million fit into memory.
#[derive(Default)]
pub(crate) struct Latencies(Vec<u64>);

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn append(&mut self, mut other: Latencies) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn count(&self) -> f64 {
        self.0.len() as f64
    }

    /// The distribution, as far as the number of latencies allows: 1 / (1 - share), and the microseconds that this
    /// share does not exceed. Ten steps for each nine.
    pub(crate) fn distribution(&mut self) -> Vec<(f64, f64)> {
        let steps =
            (0..).map(|step| 10_f64.powf(f64::from(step) / 10.0)).take_while(|step| *step * 10.0 < self.count());
        let steps: Vec<_> = steps.take(41).collect();
        steps.into_iter().map(|step| (step, self.percentiles([100.0 - 100.0 / step])[0])).collect()
    }

    /// The shortest latency that `percent` of all do not exceed, in microseconds, for each of `percents`.
    pub(crate) fn percentiles<const N: usize>(&mut self, percents: [f64; N]) -> [f64; N] {
        self.0.sort_unstable();
        percents.map(|percent| {
            let rank = (percent / 100.0 * self.count()).ceil() as usize;
            self.0.get(rank.max(1) - 1).map_or(f64::NAN, |&nanos| nanos as f64 / 1_000.0)
        })
    }
}

/// The user and system time of all threads of a process, in seconds; its resolution is 10 ms.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program, in parentheses, may contain anything.
    let (_, fields) = stat.rsplit_once(')').ok_or("/proc/PID/stat has no name")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let [user, system] = fields.get(11..13).ok_or("/proc/PID/stat is short")? else { unreachable!() };
    Ok((user.parse::<f64>()? + system.parse::<f64>()?) / TICKS)
}

/// Resident memory of a process, in bytes.
pub(crate) fn resident(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1_024.0)
}

/// CPU time of this process, in seconds.
pub(crate) fn own_cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The median.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}
