//! Metrics of the process, with the names that the client libraries of Prometheus use.
use super::text::{Kind, Text};
use std::time::{SystemTime, UNIX_EPOCH};

/// Without `/proc`, only the start time.
pub(super) fn write(text: &mut Text, started: SystemTime) {
    let started = started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    text.single("process_start_time_seconds", Kind::Gauge, "Start of the process, in seconds since 1970.", started);
    let read = |file| std::fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let stat = read("stat");
    // After the name of the program, which may have spaces and brackets. State is field 3, utime 14, stime 15, in
    // ticks.
    let fields: Vec<u64> = stat
        .rsplit_once(')')
        .map(|(_, fields)| fields.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
        .unwrap_or_default();
    if let (Some(user), Some(system)) = (fields.get(11), fields.get(12)) {
        let seconds = (user + system) as f64 / rustix::param::clock_ticks_per_second() as f64;
        text.single("process_cpu_seconds_total", Kind::Counter, "CPU time, user and system, in seconds.", seconds);
    }
    if let Some(virtual_bytes) = fields.get(20) {
        text.single("process_virtual_memory_bytes", Kind::Gauge, "Virtual memory, in bytes.", virtual_bytes);
    }
    if let Some(pages) = fields.get(21) {
        let bytes = pages * rustix::param::page_size() as u64;
        text.single("process_resident_memory_bytes", Kind::Gauge, "Resident memory, in bytes.", bytes);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        text.single("process_open_fds", Kind::Gauge, "Open file descriptors.", files.count());
    }
    if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        text.single("process_max_fds", Kind::Gauge, "Open file descriptors, at most.", most);
    }
}
