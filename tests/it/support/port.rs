//! A port that stays reserved while its server restarts.
use std::{io, net::SocketAddr};
use tokio::net::TcpSocket;

/// A port of this machine that no other process gets until this is dropped: a socket is bound to it and does not listen.
/// A server may listen on it if it sets `SO_REUSEADDR`, as ours and etcd do.
pub(crate) struct Port {
    _bound: TcpSocket,
    pub(crate) address: SocketAddr,
}

impl Port {
    pub(crate) fn reserve() -> io::Result<Self> {
        let socket = bound(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        Ok(Port { address: socket.local_addr()?, _bound: socket })
    }
}

/// A socket that may listen at the address, also if another one is bound to it.
pub(crate) fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}
