//! The terminal of `list --watch`: what is drawn, and what the person at it requests by keys and signals.
use super::super::failure::Failure;
use super::super::screen::Screen;
use super::super::stderr::are_colors_wanted;
use super::view::{Line, Size, Style, View};
use nix::unistd::{getpgrp, getppid, getsid};
use rustix::process::{Signal, getpid, kill_process};
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::mpsc;
use unicode_width::UnicodeWidthStr;

/// The key that ends the command.
const QUIT: u8 = b'q';

/// A request by a signal or a key.
pub(super) enum Request {
    End,
    /// Stop, as a job of a shell.
    Stop,
    Resized,
}

pub(super) struct Requests {
    interrupt: Signals,
    terminate: Signals,
    on_screen: Option<OnScreen>,
}

/// Requests that only a screen handles; elsewhere these signals have their default effect.
struct OnScreen {
    hangup: Signals,
    quit: Signals,
    stop: Signals,
    resized: Signals,
    keys: mpsc::Receiver<u8>,
    /// Without it, `keys` would end if there is no keyboard.
    _keys: mpsc::Sender<u8>,
}

impl Requests {
    pub(super) fn new() -> Result<Self, Failure> {
        let (interrupt, terminate) = (handler(SignalKind::interrupt())?, handler(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, on_screen: None })
    }

    /// To be called before the screen is entered: a signal in between must restore the terminal too.
    pub(super) fn with_screen(self) -> Result<Self, Failure> {
        let (sender, keys) = mpsc::channel(1);
        if io::stdin().is_terminal() {
            let sender = sender.clone();
            // The process does not wait for it. Without it, keys do nothing.
            let _ = std::thread::Builder::new().name("keys".into()).spawn(move || read_keys(&sender));
        }
        let on_screen = OnScreen {
            hangup: handler(SignalKind::hangup())?,
            quit: handler(SignalKind::quit())?,
            stop: handler(SignalKind::from_raw(Signal::TSTP.as_raw()))?,
            resized: handler(SignalKind::window_change())?,
            keys,
            _keys: sender,
        };
        Ok(Self { on_screen: Some(on_screen), ..self })
    }

    /// The next request. Cancel safe.
    pub(super) async fn next(&mut self) -> Request {
        let Self { interrupt, terminate, on_screen } = self;
        let on_screen = async {
            let Some(OnScreen { hangup, quit, stop, resized, keys, .. }) = on_screen else {
                return std::future::pending().await;
            };
            loop {
                tokio::select! {
                    _ = hangup.recv() => return Request::End,
                    _ = quit.recv() => return Request::End,
                    _ = stop.recv() => return Request::Stop,
                    _ = resized.recv() => return Request::Resized,
                    key = keys.recv() => match key {
                        Some(QUIT) => return Request::End,
                        _ => continue,
                    },
                }
            }
        };
        tokio::select! {
            _ = interrupt.recv() => Request::End,
            _ = terminate.recv() => Request::End,
            request = on_screen => request,
        }
    }
}

fn handler(kind: SignalKind) -> Result<Signals, Failure> {
    signal(kind).map_err(|error| Failure::System("handle signals".into(), error))
}

fn read_keys(keys: &mpsc::Sender<u8>) {
    let mut key = [0];
    while io::stdin().read_exact(&mut key).is_ok() && keys.blocking_send(key[0]).is_ok() {}
}

/// Takes the terminal on standard output.
pub(super) fn enter() -> Result<Screen, Failure> {
    let terminal = io::stdout().as_fd().try_clone_to_owned();
    terminal.and_then(Screen::enter).map_err(|error| Failure::System("prepare the terminal".into(), error))
}

/// Restores the terminal, stops this process until its shell lets it go on, and takes the terminal again.
pub(super) fn stop(screen: &mut Screen) -> Result<(), Failure> {
    // A process without a shell that could let it go on is not stopped, as by the signal's default: neither its parent nor that of its
    // group is one.
    let session = getsid(None);
    if getsid(Some(getppid())) != session || session == Ok(getpgrp()) {
        return Ok(());
    }
    screen.leave();
    let stopped = kill_process(getpid(), Signal::STOP).map_err(io::Error::from);
    stopped.and_then(|()| screen.resume()).map_err(|error| Failure::System("stop".into(), error))
}

/// Draws the view in the size of the terminal. `None`: the terminal is gone. `false`: it is not ready.
pub(super) fn draw(screen: &Screen, view: &View<'_>) -> Option<bool> {
    let (columns, lines) = screen.size()?;
    let size = Size { columns: columns.into(), lines: lines.into() };
    Some(screen.draw(&drawing(&view.lines(size), size, are_colors_wanted())))
}

/// The bytes that draw these lines over the previous ones, without flicker.
fn drawing(lines: &[Line], size: Size, colors: bool) -> String {
    let line = |line: &Line| {
        let (start, end) = if colors { (start_of(line.style), "\x1b[0m") } else { ("", "") };
        let end = if start.is_empty() { "" } else { end };
        // After a character in the last column, this would delete it.
        let delete_rest = if line.text.width() < size.columns { "\x1b[K" } else { "" };
        format!("{start}{}{end}{delete_rest}", line.text)
    };
    let text: Vec<_> = lines.iter().map(line).collect();
    let delete_below = if lines.len() < size.lines { "\r\n\x1b[J" } else { "" };
    format!("\x1b[H{}{delete_below}", text.join("\r\n"))
}

/// The sequence that begins a style; empty for the usual one.
fn start_of(style: Style) -> &'static str {
    match style {
        Style::Plain => "",
        Style::Title | Style::Header => "\x1b[1m",
        Style::Warning => "\x1b[33m",
        Style::Lost => "\x1b[1;31m",
        Style::Old | Style::Hint => "\x1b[2m",
    }
}
