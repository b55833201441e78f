# Shell functions (bash) for a script that runs several commands side by side: it sources this file, calls `start NAME
# COMMAND [ARG]...` for each, then `finish NAME` in the order in which their output should be printed. In between, `suspend
# NAME` takes the processors from a command until `continue_with NAME`.
#
# Each command has its own process group, so that all are stopped if the script ends early, also by Ctrl-C.
outputs=$(mktemp -d)
declare -A started=()
stop_started() {
    local pid
    # A suspended process handles the signal when it continues.
    for pid in "${started[@]}"; do kill -- "-$pid" 2>/dev/null && kill -CONT -- "-$pid" 2>/dev/null || true; done
    rm -rf "$outputs"
}
trap stop_started EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

start() {
    local name=$1
    shift
    # Job control gives each command a process group, and the default action of SIGINT, which other background jobs
    # ignore.
    set -m
    "$@" >"$outputs/$name" 2>&1 </dev/null &
    set +m
    started[$name]=$!
}

suspend() { kill -STOP -- "-${started[$1]}" 2>/dev/null || true; }
continue_with() { kill -CONT -- "-${started[$1]}" 2>/dev/null || true; }

# Waits for a command, prints its output, and returns its exit code.
finish() {
    local name=$1 code=0
    wait "${started[$name]}" || code=$?
    unset "started[$name]"
    cat "$outputs/$name"
    return "$code"
}
