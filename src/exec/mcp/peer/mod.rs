//! The process at the other end of a TCP connection. Its only purpose is that a command in the sandbox does not answer its own question (G8).
//!
//! P1. A socket can have several holders, because descriptors are inherited and passed on. If a single one is a command, the connection is a
//!     command's. So the first request of a connection is checked, and each one that may answer a question, after its last byte has arrived.
//! P2. A command in the sandbox has `no_new_privs`, which it cannot clear. That marks nothing if this process has it too.
//! P3. A command descends from this process, or from the supervisor of an earlier exec server, unless it has become a daemon.
//! P4. If nobody is found, the connection is refused: the holder may be hidden, or the descriptor on its way from one process to another.
//! P5. A peer without a socket in this network namespace is on another machine, or in a container. Nothing is known about it.
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod socket;

use std::net::SocketAddr;

/// Who sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// A process of this machine. Of several, the one that started first: its child processes may have inherited the connection.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux shows who has a connection"))]
    Process {
        id: i32,
        /// When it started, in ticks since the boot, so that a later process with the same id is another one.
        start: u64,
    },
    /// Unknown: on another machine, or behind a proxy.
    Elsewhere,
}

impl Peer {
    /// The other end of a connection from `peer` to our address `local`. Blocks the thread for some milliseconds.
    ///
    /// # Errors
    /// Why requests of this connection must be refused.
    #[cfg(target_os = "linux")]
    pub(super) fn of(peer: SocketAddr, local: SocketAddr) -> Result<Self, &'static str> {
        let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let (peer, local) = (canonical(peer), canonical(local));
        let holders = match socket::inode(peer, local) {
            Some(inode) => process::holders(inode),
            None if peer.ip().is_loopback() => Vec::new(),
            None => return Ok(Self::Elsewhere),
        };
        if holders.iter().any(|holder| holder.is_confined() || holder.is_command()) {
            return Err("a command of this exec server, or another program in a sandbox, has this connection\n");
        }
        let first = holders.iter().min_by_key(|holder| (holder.start, holder.id));
        first.map(|holder| Self::Process { id: holder.id, start: holder.start }).ok_or(
            "this exec server finds no process that has this connection: it may be of another user, or in a container\n",
        )
    }

    /// This system does not show which process has a connection.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(_: SocketAddr, _: SocketAddr) -> Result<Self, &'static str> {
        Ok(Self::Elsewhere)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_peer_of_a_connection_within_this_process_is_one_of_its_own_commands() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            let local = accepted.local_addr().unwrap();
            // The server never connects to itself.
            assert!(Peer::of(peer, local).unwrap_err().contains("a command"), "{address}");
            drop(client);
            // A process that another test starts has a copy until it executes its program.
            let is_gone = || Peer::of(peer, local).is_err_and(|why| why.contains("finds no process"));
            assert!((0..10_000).any(|_| is_gone()), "{address}");
        }
    }

    #[test]
    fn a_peer_that_is_not_of_this_machine_is_unknown() {
        let [peer, local] = ["192.0.2.1:4000", "192.0.2.2:80"].map(|address| address.parse().unwrap());
        assert_eq!(Peer::of(peer, local), Ok(Peer::Elsewhere));
    }
}
