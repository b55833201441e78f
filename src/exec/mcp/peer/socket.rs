//! The inode of a TCP socket of this network namespace, by its two addresses.
//!
//! The kernel looks up one socket by a request of `sock_diag(7)`. Where this is not available, and for a socket that is bound to an interface
//! (which such a request does not find), `/proc/net/tcp` lists all.
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};
use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
};

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST` of `linux/netlink.h`.
const REQUEST: u16 = 1;
/// The length of a request: `struct nlmsghdr`, `struct inet_diag_req_v2`.
const REQUEST_LENGTH: u32 = 72;
/// Where a response has the ports and the inode: `struct nlmsghdr`, `struct inet_diag_msg`.
const PORTS: usize = 20;
const INODE: usize = 84;

/// The socket whose own address is `own` and whose peer's is `other`; `None`: there is none.
pub(super) fn inode(own: SocketAddr, other: SocketAddr) -> Option<u64> {
    let found = looked_up(own, other).ok().flatten();
    found.or_else(|| {
        ["tcp", "tcp6"]
            .iter()
            .find_map(|table| listed(&fs::read_to_string(format!("/proc/self/net/{table}")).ok()?, own, other))
    })
}

fn looked_up(own: SocketAddr, other: SocketAddr) -> io::Result<Option<u64>> {
    let kernel =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    send(&kernel, &request(own, other), SendFlags::empty())?;
    let mut response = [0; 512];
    // The kernel responds within `send`.
    let (_, length) = recv(&kernel, &mut response[..], RecvFlags::DONTWAIT)?;
    Ok(answer(&response[..length.min(512)], own, other))
}

fn request(own: SocketAddr, other: SocketAddr) -> Vec<u8> {
    let family = if own.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut request = Vec::new();
    request.extend(REQUEST_LENGTH.to_ne_bytes());
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    request.extend([0; 8]);
    // TCP is protocol 6; nothing more than the socket is wanted, in any state.
    request.extend([u8::try_from(family.as_raw()).unwrap_or_default(), 6, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes());
    [own, other].iter().for_each(|address| request.extend(address.port().to_be_bytes()));
    for address in [own, other] {
        let mut bytes = [0; 16];
        match address.ip() {
            IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => bytes.copy_from_slice(&ip.octets()),
        }
        request.extend(bytes);
    }
    // No interface, no cookie.
    request.extend([0; 4]);
    request.extend([0xff; 8]);
    request
}

/// `None`: it is an error, or about another socket. Without a connection, the kernel responds with one that listens at `own`, whose other port is 0.
fn answer(response: &[u8], own: SocketAddr, other: SocketAddr) -> Option<u64> {
    let kind = u16::from_ne_bytes(response.get(4..6)?.try_into().ok()?);
    let ports = [own.port().to_be_bytes(), other.port().to_be_bytes()].concat();
    let inode = u32::from_ne_bytes(response.get(INODE..INODE + 4)?.try_into().ok()?);
    (kind == BY_FAMILY && response.get(PORTS..PORTS + 4)? == ports && inode != 0).then_some(inode.into())
}

/// The inode in the text of `/proc/net/tcp` or `/proc/net/tcp6`.
fn listed(table: &str, own: SocketAddr, other: SocketAddr) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_wanted = address(fields.next()?)? == own && address(fields.next()?)? == other;
        let inode = fields.nth(6)?.parse().ok()?;
        (is_wanted && inode != 0).then_some(inode)
    })
}

/// An address such as `0100007F:1F90`: words of 32 bits in the order of the machine's bytes.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let words = (0..ip.len() / 8).map(|at| u32::from_str_radix(ip.get(8 * at..8 * at + 8)?, 16).ok());
    let bytes = words.map(|word| word.map(u32::to_ne_bytes)).collect::<Option<Vec<_>>>()?.concat();
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical(),
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        net::{TcpListener, TcpStream},
        os::unix::fs::MetadataExt,
    };

    #[test]
    fn both_ways_find_the_same_socket() {
        for (bound, table) in [("127.0.0.1:0", "tcp"), ("[::1]:0", "tcp6")] {
            let Ok(listener) = TcpListener::bind(bound) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (own, other) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            let number = std::os::fd::AsRawFd::as_raw_fd(&client);
            let inode = fs::metadata(format!("/proc/self/fd/{number}")).unwrap().ino();
            let table = fs::read_to_string(format!("/proc/self/net/{table}")).unwrap();
            assert_eq!(listed(&table, own, other), Some(inode));
            if let Ok(found) = looked_up(own, other) {
                assert_eq!(found, Some(inode));
                // Nothing but the listener has this port.
                assert_eq!(looked_up(listener.local_addr().unwrap(), SocketAddr::new(own.ip(), 1)).unwrap(), None);
            }
        }
    }

    #[test]
    fn addresses_of_the_table_are_read() {
        if cfg!(target_endian = "little") {
            assert_eq!(address("0100007F:1F90"), Some("127.0.0.1:8080".parse().unwrap()));
            assert_eq!(address("0000000000000000FFFF00000100007F:0050"), Some("127.0.0.1:80".parse().unwrap()));
            assert_eq!(address("00000000000000000000000001000000:0050"), Some("[::1]:80".parse().unwrap()));
        }
        for text in ["", ":", "0100007F", "0100007:1F90", "010000ZZ:1F90", "0100007F:"] {
            assert_eq!(address(text), None, "{text:?}");
        }
    }
}
