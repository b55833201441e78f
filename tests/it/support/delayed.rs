//! A coordinator whose answers are late: its requests arrive at once, and its answers when the test says so.
use std::{
    io,
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

/// A proxy in front of a coordinator.
pub(crate) struct DelayedAnswers {
    pub(crate) address: String,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl DelayedAnswers {
    /// Holds all answers of the coordinator at this address back.
    pub(crate) fn of(coordinator: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (gate, coordinator) = (Arc::<Gate>::default(), coordinator.to_owned());
        let shared = gate.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&coordinator).unwrap());
                let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || copy(from_client, to_server));
                let gate = shared.clone();
                thread::spawn(move || {
                    drop(gate.opened.wait_while(gate.is_open.lock().unwrap(), |is_open| !*is_open));
                    copy(server, client);
                });
            }
        });
        Self { address, gate }
    }

    /// Lets all answers pass.
    pub(crate) fn release(&self) {
        *self.gate.is_open.lock().unwrap() = true;
        self.gate.opened.notify_all();
    }
}

/// The end of one side is the end of the other.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
