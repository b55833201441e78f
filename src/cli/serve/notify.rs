//! Notifies the service manager: sd_notify(3), without its library. Without a service manager, this does nothing.
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Where a service manager listens, if there is one.
pub(super) struct Manager(Option<(UnixDatagram, SocketAddr)>);

impl Manager {
    /// The service manager that `NOTIFY_SOCKET` names.
    pub(super) fn find() -> Self {
        let named = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty());
        let found =
            named.map(|name| Ok::<_, std::io::Error>((UnixDatagram::unbound()?, address(name.as_encoded_bytes())?)));
        let found = found.transpose().inspect_err(|error| tracing::warn!(%error, "reach the service manager"));
        Manager(found.ok().flatten())
    }

    /// Sends `state` to the service manager, such as `READY=1`. A failure is logged only: the manager may no longer
    /// exist.
    pub(super) fn tell(&self, state: &str) {
        if let Some((socket, manager)) = &self.0
            && let Err(error) = socket.send_to_addr(state.as_bytes(), manager)
        {
            tracing::warn!(%error, state, "notify the service manager");
        }
    }

    /// The time without a heartbeat after which the manager ends this process; `None`: the manager expects no
    /// heartbeats.
    pub(super) fn watchdog_timeout(&self) -> Option<Duration> {
        self.0.as_ref()?;
        let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
        let ours = number("WATCHDOG_PID").is_none_or(|process| process == u64::from(std::process::id()));
        number("WATCHDOG_USEC").filter(|micros| ours && *micros > 0).map(Duration::from_micros)
    }
}

fn address(name: &[u8]) -> std::io::Result<SocketAddr> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    match name.strip_prefix(b"@") {
        #[cfg(target_os = "linux")]
        Some(name) => <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name),
        _ => SocketAddr::from_pathname(OsStr::from_bytes(name)),
    }
}
