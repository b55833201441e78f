# Shell functions that every tests/agents/NAME/test uses. `name` is the test's name.

# The test cannot run here: in CI this is a failure, otherwise the reason is printed.
cannot_run() {
    [ "${CI:-}" = true ] || { echo "skipped: $1"; exit 0; }
    echo "tests/agents/$name: $1" >&2
    exit 1
}

# Downloads something: `download WHAT COMMAND [ARG]...`. A command that fails or hangs is retried once. Its output is
# printed only if it fails again.
download() {
    local what=$1 log
    shift
    log=$(mktemp)
    for attempt in 1 2; do
        if timeout --kill-after=10s 5m "$@" >"$log" 2>&1 </dev/null; then
            rm -f "$log"
            return
        fi
    done
    {
        echo "tests/agents/$name: cannot download $what: tried $attempt times: $*"
        echo "Check the network and the settings of the registry. The last lines of the output:"
        tail -n 15 "$log" | sed 's/^/    /'
    } >&2
    rm -f "$log"
    exit 1
}

# Installs packages of Debian in CI, if the shell command PROBE fails: `install_missing PROBE PACKAGE...`.
install_missing() {
    local probe=$1 as_root=() lock
    shift
    [ "${CI:-}" = true ] && command -v apt-get >/dev/null && ! bash -c "$probe" >/dev/null 2>&1 || return 0
    [ "$(id -u)" = 0 ] || as_root=(sudo -n)
    # The tests run side by side, and apt-get refuses to run twice.
    exec {lock}>"${TMPDIR:-/tmp}/pausewatch-apt.lock"
    flock "$lock"
    download "the package lists of Debian" "${as_root[@]}" apt-get update -qq
    download "$* (Debian)" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends "$@"
    exec {lock}>&-
}

# Node.js 20 or later, with npm.
need_node() {
    install_missing 'command -v node && command -v npm' nodejs npm
    command -v npm >/dev/null && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null ||
        cannot_run "Node.js 20 or later with npm is missing: install it"
}

# Installs the packages of package.json and package-lock.json of this directory into a cache directory: `npm_install
# DIRECTORY [OPTION]...`. The file `complete` in it is the lock file of the last installation.
npm_install() {
    local directory=$1
    shift
    ! cmp -s package-lock.json "$directory/complete" || return 0
    mkdir -p "$directory"
    rm -f "$directory/complete"
    cp package.json package-lock.json "$directory"
    download "the npm packages of package-lock.json" npm ci --no-audit --no-fund --no-progress --prefix "$directory" "$@"
}

# Marks the installation as complete.
npm_installed() {
    cp package-lock.json "$1/complete"
}
