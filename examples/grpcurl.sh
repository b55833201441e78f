#!/bin/sh
# Every call with nothing but grpcurl, which finds the service by server reflection. Runs a coordinator of its own.
#
# usage: examples/grpcurl.sh    (grpcurl and pausewatch on PATH)
#
# Exits 0 only if every answer was the right one.
set -eu

work=$(mktemp -d)
server=
cleanup() {
    trap - EXIT
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

mkfifo "$work/listening"
pausewatch serve --listen 127.0.0.1:0 --store memory >"$work/listening" &
server=$!
read -r _ address <"$work/listening"

service=pausewatch.v1.ElicitationService

# Shows a call, as one would type it, and its answer, and keeps the answer.
show() {
    printf '\n$'
    for word; do
        case $word in
            *[!A-Za-z0-9_./:-]*) printf " '%s'" "$word" ;;
            *) printf ' %s' "$word" ;;
        esac
    done
    echo
    status=0
    "$@" >"$work/answer" 2>&1 || status=$?
    cat "$work/answer"
}
# The answer must have this in it.
expect() {
    grep -q -- "$1" "$work/answer" || { echo "expected: $1" >&2; exit 1; }
}

echo "What is there?"
show grpcurl -plaintext "$address" list
expect "^$service\$"
show grpcurl -plaintext "$address" describe "$service.IncrementElicitation"
expect 'rpc IncrementElicitation'

echo
echo "Two questions are put to a person: the thread is paused."
show grpcurl -plaintext -d '{"thread_id": "thread-1", "reason": "Delete the branch?", "ttl": "30s"}' \
    "$address" "$service/IncrementElicitation"
expect '"count": 1'
expect '"paused": true'
show grpcurl -plaintext -d '{"thread_id": "thread-1", "reason": "Push?"}' "$address" "$service/IncrementElicitation"
expect '"count": 2'

echo
echo "One thread."
show grpcurl -plaintext -d '{"thread_id": "thread-1"}' "$address" "$service/GetPauseState"
expect '"reason": "Delete the branch?"'
echo
echo "What changes within two seconds: after one, somebody answers."
(
    sleep 1
    grpcurl -plaintext -d '{"thread_id": "thread-1"}' "$address" "$service/DecrementElicitation" >/dev/null
) &
show grpcurl -plaintext -max-time 2 -d '{"thread_ids": ["thread-1"]}' "$address" "$service/WatchPauseState"
expect '"snapshotComplete": {'
expect '"count": 1'

echo
echo "The other one is answered: the thread runs (what is 0 or false is left out)."
show grpcurl -plaintext -d '{"thread_id": "thread-1"}' "$address" "$service/DecrementElicitation"
expect '"revision"'

echo
echo "There is no third one to close."
show grpcurl -plaintext -d '{"thread_id": "thread-1"}' "$address" "$service/DecrementElicitation"
[ "$status" -ne 0 ]
expect 'Code: FailedPrecondition'
expect 'NO_OUTSTANDING_ELICITATION'

echo
echo "The program of the project says the same."
show pausewatch get --address "$address" --thread-id thread-1
expect '^thread-1: running'
