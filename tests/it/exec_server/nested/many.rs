//! Hundreds of approved programs at once, and KILL of some of them, or of a judging process, at any moment.
use super::{Judged, text, until};
use crate::exec_server::client::until_gone;
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, mknodat, open},
    process::{Pid, Signal, kill_process},
};
use serde_json::json;
use std::{
    collections::HashSet,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

/// A command that starts programs which read from a named pipe until its writers have gone. Each program is a question,
/// and all questions are the same.
struct Many {
    judged: Judged,
    /// The pipe, whose name is in the command lines of all programs and relays.
    pipe: PathBuf,
    id: u64,
}

impl Many {
    fn start(count: usize) -> Option<Self> {
        let mut judged = Judged::start()?;
        let pipe = judged.path(&format!("pipe{}", fastrand::u64(..)));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        // The shell reports each program that was killed.
        let id = judged.begin(&format!(
            "exec 2> /dev/null
             i=0; while [ $i -lt {count} ]; do cat {} & places=\"$places $!\"; i=$((i+1)); done
             killed=0; ended=0
             for place in $places; do
               wait $place; case $? in 137) killed=$((killed+1));; 0) ended=$((ended+1));; *) echo \"odd $?\";; esac
             done
             echo $killed killed, $ended ended",
            pipe.display()
        ));
        let asked = judged.question();
        judged.client.respond(&asked, json!({"action": "accept", "content": {"run": "yes"}}));
        Some(Self { judged, pipe, id })
    }

    /// The process ids of the programs and their relays.
    fn processes(&self) -> Vec<Pid> {
        let line = format!("cat\0{}\0", self.pipe.display());
        let is_its = |pid: &Pid| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|found| found == line.as_bytes());
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
        pids.filter(is_its).collect()
    }

    fn supervisor(&self) -> Pid {
        let directory = self.judged.directory.path().to_str().unwrap();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
        let found = pids.find(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            line.contains("exec-supervisor") && line.contains(directory)
        });
        found.expect("the command has a supervisor")
    }

    /// Lets all programs end, also those that have not opened the pipe yet, and returns the answer to the call.
    fn end(mut self) -> String {
        let end = Instant::now() + Duration::from_secs(300);
        while !self.judged.client.has_answered(self.id) {
            assert!(Instant::now() < end, "no answer");
            // Fails if no program reads the pipe.
            let _ = open(&self.pipe, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
            std::thread::sleep(Duration::from_millis(2));
        }
        let output = text(&self.judged.client.answer(self.id), "output").to_owned();
        until_gone(self.pipe.to_str().unwrap());
        output
    }
}

#[test]
fn of_two_hundred_approved_programs_those_that_are_killed_end_so_and_the_others_end_well() {
    const PROGRAMS: usize = 200;
    const KILLS: usize = 60;
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let Some(many) = Many::start(PROGRAMS) else { return };
    let mut killed = HashSet::new();
    while killed.len() < KILLS {
        // Some start while others are killed; a victim is a relay or a program, at any step of its start.
        let processes: Vec<_> = many.processes().into_iter().filter(|pid| !killed.contains(pid)).collect();
        let Some(victim) = random.choice(&processes) else { continue };
        if kill_process(*victim, Signal::KILL).is_ok() {
            killed.insert(*victim);
        }
    }
    let output = many.end();
    let numbers: Vec<usize> =
        output.split(|other: char| !other.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    let [places, ended] = numbers[..] else { panic!("{output}") };
    assert_eq!(output, format!("{places} killed, {ended} ended\n"));
    assert_eq!(places + ended, PROGRAMS, "{output}");
    // A relay and its program may both have been killed, which is one place.
    assert!((KILLS / 2..=KILLS).contains(&places), "{output}");
}

#[test]
fn killed_at_any_moment_a_supervisor_or_server_leaves_none_of_many_programs() {
    const PROGRAMS: usize = 60;
    for victim in ["supervisor", "server"] {
        let started = fastrand::usize(..PROGRAMS);
        eprintln!("{victim} after {started} programs");
        let Some(mut many) = Many::start(PROGRAMS) else { return };
        until("programs", || (many.processes().len() >= started).then_some(()));
        let pid = match victim {
            "supervisor" => many.supervisor(),
            _ => Pid::from_raw(many.judged.client.pid().cast_signed()).unwrap(),
        };
        kill_process(pid, Signal::KILL).unwrap();
        until_gone(many.pipe.to_str().unwrap());
        match victim {
            "supervisor" => assert_eq!(many.judged.client.answer(many.id)["exit_code"], 137),
            _ => until_gone(many.judged.directory.path().to_str().unwrap()),
        }
    }
}
