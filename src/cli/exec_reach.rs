//! What a command could act through outside the sandbox: services of the user that run programs for whoever reaches them. For `exec-server --check`.
use std::{
    env, fs,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

/// The ports of debuggers, each with a program that listens there.
const DEBUGGERS: [(u16, &str); 5] =
    [(9229, "Node.js"), (9222, "Chrome"), (5005, "Java"), (5678, "debugpy"), (2345, "Delve")];
/// How long one connection may take; they are all on this machine.
const PATIENCE: Duration = Duration::from_millis(200);

/// Those that answer, each as a person reads it.
pub(super) fn reachable() -> Vec<String> {
    let answers = |(_, path): &(&str, PathBuf)| UnixStream::connect(path).is_ok();
    let sockets = sockets().into_iter().filter(answers).map(|(what, path)| format!("{what} ({})", path.display()));
    let mut found: Vec<_> = sockets.collect();
    for (port, what) in DEBUGGERS {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpStream::connect_timeout(&address, PATIENCE).is_ok() {
            found.push(format!("a debugger ({what}: {address})"));
        }
    }
    found.dedup();
    found
}

/// The sockets of such services.
fn sockets() -> Vec<(&'static str, PathBuf)> {
    let user = rustix::process::geteuid().as_raw();
    let runtime = env::var_os("XDG_RUNTIME_DIR").map_or_else(|| format!("/run/user/{user}").into(), PathBuf::from);
    let named = |name: &str| env::var(name).unwrap_or_default();
    let mut sockets = Vec::new();
    let bus = named("DBUS_SESSION_BUS_ADDRESS");
    let bus = bus
        .split(',')
        .find_map(|part| part.strip_prefix("unix:path="))
        .map_or_else(|| runtime.join("bus"), PathBuf::from);
    sockets.push(("D-Bus, and by it systemd", bus));
    sockets.push(("systemd", runtime.join("systemd/private")));
    let docker = named("DOCKER_HOST");
    sockets.extend(docker.strip_prefix("unix://").map(|path| ("docker", path.into())));
    sockets.push(("docker", "/var/run/docker.sock".into()));
    sockets.push(("podman", runtime.join("podman/podman.sock")));
    sockets.push(("containerd", "/run/containerd/containerd.sock".into()));
    let agent = named("SSH_AUTH_SOCK");
    sockets.extend((!agent.is_empty()).then(|| ("ssh-agent", agent.into())));
    let tmux = env::var_os("TMUX_TMPDIR").map_or_else(|| "/tmp".into(), PathBuf::from);
    sockets.extend(files_in(&tmux.join(format!("tmux-{user}"))).map(|path| ("tmux", path)));
    let name = named("USER");
    sockets.extend(files_in(Path::new(&format!("/run/screen/S-{name}"))).map(|path| ("screen", path)));
    sockets
}

fn files_in(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}
