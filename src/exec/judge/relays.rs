//! The relays of one command, and the approved programs in whose original places they run.
use super::{
    packet,
    relay::{Order, Relayed},
    start::{Approved, Settings, Starting, start},
    streams::are_streams,
};
use crate::exec::supervise;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rustix::{
    io::Errno,
    process::{self, PidfdFlags, pidfd_open, pidfd_send_signal},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd},
};

/// The signals to the original place of a program that reach it outside the sandbox. Others may do more than end or stop it: SIGUSR1 opens
/// the debugger of Node.js, by which everybody can run code in it.
const FORWARDED: [i32; 10] = [
    nix::libc::SIGHUP,
    nix::libc::SIGINT,
    nix::libc::SIGQUIT,
    nix::libc::SIGALRM,
    nix::libc::SIGTERM,
    nix::libc::SIGCONT,
    nix::libc::SIGTSTP,
    nix::libc::SIGTTIN,
    nix::libc::SIGTTOU,
    nix::libc::SIGWINCH,
];

/// A process that executes, or has executed, our program in place of another.
struct Relay {
    socket: OwnedFd,
    /// `None`: the program was refused, or has been started.
    approved: Option<Approved>,
    /// Whether that program leaves the sandbox.
    leaves: bool,
    received: Vec<(RawFd, OwnedFd)>,
    program: Option<Pid>,
    /// A pidfd of the process in the original place of that program.
    place: Option<OwnedFd>,
}

pub(super) struct Relays {
    settings: Settings,
    relays: Vec<Relay>,
    /// Approved programs that have not reported their start yet.
    starting: Vec<Starting>,
}

/// What a message of a relay has caused.
pub(super) enum Outcome {
    Nothing,
    /// An approved program is being started in the place of a process.
    Started { program: Pid, place: i32 },
    /// Something that the caller of the command should know.
    Failed(String),
}

impl Relays {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, relays: Vec::new(), starting: Vec::new() }
    }

    /// Tells a process that executes our program next what to do; `approved`: the program to start in its place.
    pub(super) fn add(&mut self, socket: OwnedFd, order: &Order, approved: Option<Approved>) -> io::Result<()> {
        packet::send(&socket, order, &[])?;
        let leaves = approved.as_ref().is_some_and(|approved| approved.streams.is_some());
        self.relays.push(Relay { socket, approved, leaves, received: Vec::new(), program: None, place: None });
        Ok(())
    }

    /// Whether a program is being started, which may bring a listener.
    pub(super) fn are_starting(&self) -> bool {
        !self.starting.is_empty()
    }

    /// The sockets of all relays, in the order of their numbers.
    pub(super) fn sockets(&self) -> impl ExactSizeIterator<Item = BorrowedFd<'_>> {
        self.relays.iter().map(|relay| relay.socket.as_fd())
    }

    /// Those of the programs that are being started.
    pub(super) fn starting_sockets(&self) -> impl ExactSizeIterator<Item = BorrowedFd<'_>> {
        self.starting.iter().map(|program| program.socket.as_fd())
    }

    /// Handles a message of the relay with this number, or its end. After its end, the last relay gets its number.
    pub(super) fn on_message(&mut self, at: usize) -> Outcome {
        let relay = &mut self.relays[at];
        match packet::receive::<Relayed>(&relay.socket) {
            Ok(Some((Relayed::Descriptors { numbers, last }, fds))) => {
                // The kernel drops those above our limit of open files.
                let are_missing = numbers.len() != fds.len();
                relay.received.extend(numbers.into_iter().zip(fds));
                let Some(approved) = relay.approved.take_if(|_| last || are_missing) else { return Outcome::Nothing };
                let mut received = std::mem::take(&mut relay.received);
                let is_changed = approved.streams.as_ref().is_some_and(|judged| {
                    // Nothing else that the sandboxed process has open goes along.
                    received.retain(|(number, _)| *number < 3);
                    !are_streams(&received, judged)
                });
                let started = match () {
                    () if are_missing => Err(Errno::MFILE.into()),
                    () if is_changed => Err(io::Error::other("its standard streams are others than when it was judged")),
                    () => start(&approved, &received, self.settings),
                };
                match started {
                    Ok(started) => {
                        let program = started.process;
                        relay.program = Some(program);
                        let place = process::Pid::from_raw(approved.process);
                        relay.place = place.and_then(|place| pidfd_open(place, PidfdFlags::empty()).ok());
                        self.starting.push(started);
                        Outcome::Started { program, place: approved.process }
                    }
                    Err(error) => {
                        let _ = packet::send(&relay.socket, &Order::Exited(126), &[]);
                        Outcome::Failed(format!("{} was not started: {error}", approved.file.display()))
                    }
                }
            }
            Ok(Some((Relayed::Signal(number), _))) if FORWARDED.contains(&number) || !relay.leaves => {
                let program = relay.program.and_then(|program| process::Pid::from_raw(program.as_raw()));
                if let (Some(program), Some(signal)) = (program, supervise::Signal::from_raw(number)) {
                    let _ = signal.send(program);
                }
                Outcome::Nothing
            }
            Ok(Some((Relayed::Signal(_), _))) => Outcome::Nothing,
            Ok(None) | Err(_) => {
                let relay = self.relays.swap_remove(at);
                // The relay was killed before its program has ended.
                relay.program.iter().for_each(|program| _ = kill(*program, Signal::SIGKILL));
                Outcome::Nothing
            }
        }
    }

    /// Handles the start of the program with this number, and returns its listener if it is judged. The last
    /// program gets its number.
    pub(super) fn on_started(&mut self, at: usize) -> Option<OwnedFd> {
        let Starting { process, socket } = self.starting.swap_remove(at);
        // `None`: it could not start, which its end will show.
        let (in_group, mut fds) = packet::receive(&socket).ok()??;
        if let Some(relay) = self.relays.iter().find(|relay| relay.program == Some(process)) {
            let _ = packet::send(&relay.socket, &Order::Started { in_group }, &[]);
        }
        fds.pop()
    }

    /// A child has ended: makes its relay, if it has one, end in the same way.
    pub(super) fn on_end(&mut self, program: Pid, order: &Order) {
        if let Some(relay) = self.relays.iter_mut().find(|relay| relay.program == Some(program)) {
            let _ = packet::send(&relay.socket, order, &[]);
            relay.program = None;
            // The relay may be stopped, as its program was.
            relay.signal(process::Signal::CONT);
        }
    }

    /// A child has stopped or continued: stops or continues its relay, if it has one.
    pub(super) fn on_stop(&self, program: Pid, is_stopped: bool) {
        if let Some(relay) = self.relays.iter().find(|relay| relay.program == Some(program)) {
            relay.signal(if is_stopped { process::Signal::STOP } else { process::Signal::CONT });
        }
    }
}

impl Relay {
    fn signal(&self, signal: process::Signal) {
        self.place.iter().for_each(|place| _ = pidfd_send_signal(place, signal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, os::fd::AsRawFd};

    #[test]
    fn a_program_whose_descriptors_do_not_all_arrive_is_not_started() {
        let directory = File::open("/").unwrap();
        let approved = Approved {
            process: std::process::id().cast_signed(),
            file: "/bin/true".into(),
            arguments: vec!["true".into()],
            environment: Vec::new(),
            directory: directory.try_clone().unwrap().into(),
            shell: "/bin/sh".to_owned(),
            streams: None,
        };
        let (ours, theirs) = packet::pair().unwrap();
        let mut relays = Relays::new(Settings::default());
        relays.add(ours, &Order::Relay, Some(approved)).unwrap();
        packet::receive::<Order>(&theirs).unwrap().expect("the order");
        let message = Relayed::Descriptors { numbers: vec![0, 1], last: true };
        packet::send(&theirs, &message, &[directory.as_raw_fd()]).unwrap();
        assert!(matches!(relays.on_message(0), Outcome::Failed(why) if why.contains("/bin/true was not started")));
        assert!(matches!(packet::receive(&theirs), Ok(Some((Order::Exited(126), _)))));
    }
}
