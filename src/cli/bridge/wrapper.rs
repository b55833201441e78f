//! `pausewatch bridge codex -- COMMAND`: a transparent wrapper around an app-server that speaks over standard streams.
//!
//! 1. The client's bytes reach the app-server, and the app-server's bytes the client, unchanged and in order. The exceptions:
//!    `initialize` gets one capability (`initialize.rs`), our requests are inserted between two lines of the client,
//!    and the answers to them are not passed on.
//! 2. Neither direction waits for the other. The wrapper reads only as fast as its output is read: a slow client slows
//!    the app-server, as it would without the wrapper.
//! 3. When the client closes its end, or a signal arrives, our counts are undone first. Then the app-server gets the same end
//!    of input, or the signal, and this process ends as the app-server did. Output that the client has not read a second
//!    after the end is lost if there was a signal.
//! 4. If this process is killed, the app-server gets the end of its input and, on Linux, TERM: it ends, and its counts with it.
use super::follow::{Bridge, Input, Inputs, Plan, inputs};
use super::initialize::{Line, complete};
use super::lines::{Lines, Piece};
use super::message::{Ids, Message, Outcome};
use super::report::{NAME, say};
use crate::cli::{exit, failure, hold};
use crate::exec::supervise::{ExitAction, Program, Signal, SignalListener, SpawnError};
use rustix::process::{Pid, Signal as SystemSignal};
use std::{io, process::ExitCode, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    process::{Child, ChildStdin, ChildStdout},
    sync::{mpsc, oneshot},
    time::timeout,
};

/// The signals that are passed on, after our counts were undone.
const PASSED_ON: [SystemSignal; 4] = [SystemSignal::INT, SystemSignal::QUIT, SystemSignal::TERM, SystemSignal::HUP];
/// Bytes that are read at a time.
const BUFFER: usize = 64 << 10;
/// The maximum wait after the app-server has ended: for more output, if another process has its standard output open; and
/// after a signal, for a client that does not read.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// Runs the app-server to its end.
pub(super) async fn run(program: &Program, plan: Plan) -> Result<ExitAction, ExitCode> {
    let caught = SignalListener::catching(&[], &PASSED_ON).map_err(SpawnError::NoProcess);
    let started = caught.and_then(|listener| Ok((listener, program.spawn_piped()?)));
    let (mut signals, mut server) = started.map_err(|error| failure::cannot_run(NAME, &program.name, &error))?;
    let (Some(input), Some(output)) = (server.stdin.take(), server.stdout.take()) else {
        say("the app-server has no standard streams");
        return Err(ExitCode::from(exit::OWN_FAILURE));
    };
    let ids = Ids::new();
    let (sender, receiver) = inputs();
    let (requests, queue) = mpsc::unbounded_channel();
    // The queue is new and has room.
    let _ = sender.send(Input::Connected(requests)).await;
    tokio::spawn(Bridge::new(plan, ids.clone()).run(receiver, false));
    tokio::spawn(to_server(tokio::io::stdin(), input, queue, sender.clone()));
    let (ended, has_ended) = oneshot::channel();
    let mut reader = tokio::spawn(to_client(output, tokio::io::stdout(), ids, sender.clone(), has_ended));
    let (status, mut is_signalled) = supervise(&mut server, &mut signals, &sender).await;
    let _ = ended.send(());
    // Without a signal, the client has any time that it needs to read the last output.
    if !is_signalled {
        is_signalled = tokio::select! { _ = &mut reader => false, _ = signals.recv() => true };
    }
    if is_signalled {
        let _ = timeout(LAST_OUTPUT, reader).await;
    }
    // The publisher releases what it holds.
    let _ = sender.send(Input::Stop).await;
    sender.closed().await;
    let status = status.map_err(|error| {
        say(&format!("wait for the app-server: {error}"));
        ExitCode::from(exit::OWN_FAILURE)
    })?;
    Ok(ExitAction::of(status, false, false))
}

/// Passes signals on until the app-server has ended. Returns how it ended, and whether a signal was received.
async fn supervise(
    server: &mut Child,
    signals: &mut SignalListener,
    sender: &Inputs,
) -> (io::Result<std::process::ExitStatus>, bool) {
    let mut is_signalled = false;
    loop {
        tokio::select! {
            biased;
            status = server.wait() => return (status, is_signalled),
            signal = signals.recv() => {
                is_signalled = true;
                if sender.send(Input::Stop).await.is_ok() {
                    sender.closed().await;
                }
                let from_terminal = matches!(signal, Signal::INT | Signal::QUIT) && hold::in_foreground();
                if let Some(pid) = server.id().and_then(|id| Pid::from_raw(id.try_into().ok()?))
                    && !from_terminal
                {
                    // If the signal is not permitted, the wrapper can only wait for the end.
                    let _ = signal.send_and_continue(pid);
                }
            }
        }
    }
}

/// Passes the client's lines on, and our requests between them, until the bridge has ended.
async fn to_server(
    mut client: impl AsyncRead + Unpin,
    mut server: ChildStdin,
    mut requests: mpsc::UnboundedReceiver<String>,
    sender: Inputs,
) {
    let (mut lines, mut buffer) = (Lines::new(), vec![0; BUFFER]);
    let (mut is_open, mut is_initialized) = (true, false);
    loop {
        tokio::select! {
            request = requests.recv(), if !lines.is_within_line() => {
                let Some(request) = request else { return };
                if write(&mut server, format!("{request}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
            read = client.read(&mut buffer), if is_open => {
                let pieces = match read {
                    Ok(size) if size > 0 => lines.push(&buffer[..size]),
                    _ => {
                        is_open = false;
                        Vec::from_iter(lines.rest())
                    }
                };
                for piece in pieces {
                    let completed = match &piece {
                        Piece::Line(line) if !is_initialized => complete(line),
                        _ => Line::Other,
                    };
                    is_initialized |= completed != Line::Other;
                    let bytes = if let Line::Completed(line) = &completed { line } else { piece.bytes() };
                    if write(&mut server, bytes).await.is_err() {
                        return;
                    }
                }
                // The bridge sends its last requests and ends; then the app-server gets the end of its input.
                if !is_open && sender.send(Input::Stop).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Passes the app-server's lines on, without the answers to us, until the app-server closes its output.
async fn to_client(
    mut server: ChildStdout,
    mut client: impl AsyncWrite + Unpin,
    ids: Ids,
    sender: Inputs,
    mut has_ended: oneshot::Receiver<()>,
) {
    let (mut lines, mut buffer, mut ended) = (Lines::new(), vec![0; BUFFER], false);
    let mut is_open = true;
    loop {
        let size = if ended {
            timeout(LAST_OUTPUT, server.read(&mut buffer)).await.unwrap_or(Ok(0))
        } else {
            tokio::select! {
                size = server.read(&mut buffer) => size,
                _ = &mut has_ended => {
                    ended = true;
                    continue;
                }
            }
        };
        let size = size.unwrap_or(0);
        let mut pieces = lines.push(&buffer[..size]);
        if size == 0 {
            pieces.extend(lines.rest());
        }
        let mut for_client = Vec::new();
        for piece in pieces {
            let input = match &piece {
                Piece::Line(line) => match ids.read(line) {
                    Message::Ours(number, answer) => {
                        let outcome = answer.map_or_else(|why| why, |_| Outcome::Done);
                        let _ = sender.send(Input::Answer(number, outcome)).await;
                        continue;
                    }
                    Message::Theirs(news) => news.map(Input::News),
                },
                Piece::Part(_) => None,
            };
            if let Some(input) = input {
                // The bridge may have ended before.
                let _ = sender.send(input).await;
            }
            for_client.extend_from_slice(piece.bytes());
        }
        if is_open && write(&mut client, &for_client).await.is_err() {
            // The client no longer reads, so the app-server must end. Until then its output is read, so that it does
            // not block.
            is_open = false;
            let _ = sender.send(Input::Stop).await;
        }
        if size == 0 {
            // No answer can follow.
            let _ = sender.send(Input::Disconnected).await;
            return;
        }
    }
}

async fn write(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}
