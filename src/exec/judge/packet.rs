//! Messages with file descriptors, over a Unix socket of packets (SOCK_SEQPACKET): one packet is one message in JSON.
//!
//! A message has at most [`MAX_BYTES`]; texts without a limit are sent as a file.
use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
};

/// The maximum of a message, in bytes.
pub(super) const MAX_BYTES: usize = 128 << 10;
/// The kernel's maximum of file descriptors in one packet (SCM_MAX_FD).
pub(super) const MAX_FDS: usize = 253;

/// Both ends of a new socket. They are closed on exec.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    #[cfg(target_os = "linux")]
    let flags = SockFlag::SOCK_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = SockFlag::empty();
    Ok(socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?)
}

/// Sends a message and copies of file descriptors. They are given by number, because a relay has only the numbers of
/// its program's.
///
/// # Errors
/// EMSGSIZE: the message is too long. EPIPE: the other end has gone. EAGAIN: the socket does not block and is full. Nothing was sent.
pub(super) fn send(socket: impl AsFd, message: &impl Serialize, fds: &[RawFd]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > MAX_BYTES {
        return Err(Errno::MSGSIZE.into());
    }
    let rights = [ControlMessage::ScmRights(fds)];
    let control = if fds.is_empty() { &[][..] } else { &rights[..] };
    #[cfg(target_os = "linux")]
    let flags = MsgFlags::MSG_NOSIGNAL;
    #[cfg(not(target_os = "linux"))]
    let flags = MsgFlags::empty();
    sendmsg::<()>(socket.as_fd().as_raw_fd(), &[IoSlice::new(&bytes)], control, flags, None)?;
    Ok(())
}

/// Receives the next message; `None`: the other end is closed, perhaps without having read all our messages.
///
/// # Errors
/// EAGAIN: the socket does not block and is empty. Others: it is not such a socket, or the message is invalid.
pub(super) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let has_gone = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::CONNRESET);
    let mut bytes = match length_of_next(&socket) {
        Err(error) if has_gone(&error) => return Ok(None),
        length => vec![0; length?],
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    let received = recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    match received.bytes {
        0 => Ok(None),
        length => Ok(Some((serde_json::from_slice(&bytes[..length])?, fds))),
    }
}

/// The size of the buffer for the next message: a larger buffer would touch memory that is not used.
#[cfg(target_os = "linux")]
fn length_of_next(socket: impl AsFd) -> io::Result<usize> {
    let (_, length) = rustix::net::recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::TRUNC)?;
    Ok(length.clamp(1, MAX_BYTES))
}

#[cfg(not(target_os = "linux"))]
fn length_of_next(_: impl AsFd) -> io::Result<usize> {
    Ok(MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_message_arrives_with_its_file_descriptors() {
        let (ours, theirs) = pair().unwrap();
        let (mut read, mut write) = io::pipe().unwrap();
        send(&ours, &("hello", 7), &[write.as_raw_fd()]).unwrap();
        write.write_all(b"a").unwrap();
        drop(write);
        let ((text, number), fds) = receive::<(String, u32)>(&theirs).unwrap().unwrap();
        assert_eq!((text.as_str(), number, fds.len()), ("hello", 7, 1));
        io::PipeWriter::from(fds.into_iter().next().unwrap()).write_all(b"b").unwrap();
        let mut all = String::new();
        read.read_to_string(&mut all).unwrap();
        assert_eq!(all, "ab", "the copy is the same pipe, and no other copy is left");
    }

    #[test]
    fn a_message_that_is_too_long_is_not_sent() {
        let (ours, theirs) = pair().unwrap();
        let (longest, longer) = ("x".repeat(MAX_BYTES - 2), "x".repeat(MAX_BYTES - 1));
        let error = send(&ours, &longer, &[]).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::MSGSIZE));
        send(&ours, &longest, &[]).unwrap();
        assert_eq!(receive::<String>(&theirs).unwrap().unwrap().0.len(), longest.len(), "with quotes, the maximum");
    }

    #[test]
    fn the_end_of_the_other_side_is_not_an_error() {
        let (ours, theirs) = pair().unwrap();
        send(&ours, &1, &[]).unwrap();
        drop(ours);
        assert_eq!(receive::<u32>(&theirs).unwrap().unwrap().0, 1);
        assert!(receive::<u32>(&theirs).unwrap().is_none());
        assert_eq!(send(&theirs, &1, &[]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let (ours, theirs) = pair().unwrap();
        send(&theirs, &1, &[]).unwrap();
        drop(ours);
        assert!(receive::<u32>(&theirs).unwrap().is_none(), "it has not read all");
    }
}
