# Shell functions (bash) for a script that runs several commands side by side: it sources this file, calls `start NAME
# COMMAND [ARG]...` for each, then `finish NAME` in the order in which their output should be printed. In between, `make_idle
# NAME` lets a command use only the processor time that nothing else needs, until `make_normal NAME`.
#
# Each command has its own process group, so that all are stopped if the script ends early, also by Ctrl-C.
outputs=$(mktemp -d)
declare -A started=()
stop_started() {
    local pid
    for pid in "${started[@]}"; do kill -- "-$pid" 2>/dev/null || true; done
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

# The scheduling policies are those of sched(7); new processes and threads inherit them.
make_idle() { set_policy idle "${started[$1]}"; }
make_normal() { set_policy other "${started[$1]}"; }

# Sets the policy of a process group, twice: a process may have started another one while the first pass read the list.
set_policy() {
    local policy=$1 group=$2 pass status fields
    for pass in 1 2; do
        for status in /proc/[0-9]*/stat; do
            # The name of the program, in parentheses, may contain anything. Two fields after it is the group.
            fields=$(cat "$status" 2>/dev/null) || continue
            read -ra fields <<<"${fields##*) }"
            [ "${fields[2]}" != "$group" ] || chrt "--$policy" --all-tasks --pid 0 "$(basename "$(dirname "$status")")" 2>/dev/null || true
        done
    done
}

# Waits for a command, prints its output, and returns its exit code.
finish() {
    local name=$1 code=0
    wait "${started[$name]}" || code=$?
    unset "started[$name]"
    cat "$outputs/$name"
    return "$code"
}
