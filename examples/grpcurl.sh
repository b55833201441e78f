#!/bin/sh
# Every call with only grpcurl, which finds the service by server reflection. Runs its own coordinator.
#
# usage: examples/grpcurl.sh [unix]    (grpcurl and pausewatch on PATH; unix: over a Unix socket)
#
# Exits with 0 only if every answer was correct.
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

case ${1:-} in
    '') listen=127.0.0.1:0 plain=-plaintext ;;
    unix) listen=unix:$work/socket plain='-plaintext -unix' ;;
    *) sed -n 's/^# usage/usage/p' "$0" >&2 && exit 2 ;;
esac
mkfifo "$work/listening"
pausewatch serve --listen "$listen" --store memory >"$work/listening" &
server=$!
read -r _ listening <"$work/listening"
# grpcurl gets the path of a socket, and an option that it is one.
address=${listening#unix:}

service=pausewatch.v1.ElicitationService

# Prints a call as one would type it, and its answer; keeps the answer.
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
# The answer must contain this.
expect() {
    grep -q -- "$1" "$work/answer" || { echo "expected: $1" >&2; exit 1; }
}
# The answer must not contain this.
refute() {
    ! grep -q -- "$1" "$work/answer" || { echo "not expected: $1" >&2; exit 1; }
}

echo "What is there?"
show grpcurl $plain "$address" list
expect "^$service\$"
expect '^grpc.health.v1.Health$'
show grpcurl $plain "$address" describe "$service.IncrementElicitation"
expect 'rpc IncrementElicitation'

echo
echo "Two questions are put to a person: the thread is paused."
show grpcurl $plain -d '{"thread_id": "thread-1", "reason": "Delete the branch?", "ttl": "30s", "request_id": "b1946ac9"}' \
    "$address" "$service/IncrementElicitation"
expect '"count": 1'
expect '"paused": true'
elicitation=$(sed -n 's/.*"elicitationId": "\(.*\)".*/\1/p' "$work/answer")
show grpcurl $plain -d '{"thread_id": "thread-1", "reason": "Push?"}' "$address" "$service/IncrementElicitation"
expect '"count": 2'

echo
echo "The first call again, as after a lost answer: it counts once and says the same."
show grpcurl $plain -d '{"thread_id": "thread-1", "reason": "Delete the branch?", "ttl": "30s", "request_id": "b1946ac9"}' \
    "$address" "$service/IncrementElicitation"
expect '"count": 1'
expect "\"elicitationId\": \"$elicitation\""

echo
echo "The person takes longer: the lease of that question is extended."
show grpcurl $plain -d "{\"thread_id\": \"thread-1\", \"elicitation_id\": \"$elicitation\", \"ttl\": \"60s\"}" \
    "$address" "$service/RenewElicitation"
expect '"expireTime"'

echo
echo "All paused threads, then one thread."
show grpcurl $plain "$address" "$service/ListPauseStates"
expect '"threadId": "thread-1"'
expect '"count": 2'
show grpcurl $plain -d '{"thread_id": "thread-1"}' "$address" "$service/GetPauseState"
expect '"reason": "Delete the branch?"'
echo
echo "What changes within two seconds: after one, somebody answers."
(
    sleep 1
    grpcurl $plain -d '{"thread_id": "thread-1"}' "$address" "$service/DecrementElicitation" >/dev/null
) &
show grpcurl $plain -max-time 2 -d '{"thread_ids": ["thread-1"]}' "$address" "$service/WatchPauseState"
expect '"snapshotComplete": {'
expect '"count": 1'

echo
echo "The other one is answered: the thread runs (what is 0 or false is left out)."
show grpcurl $plain -d '{"thread_id": "thread-1"}' "$address" "$service/DecrementElicitation"
expect '"revision"'
refute '"paused"'
refute '"count"'

echo
echo "There is no third one to close."
show grpcurl $plain -d '{"thread_id": "thread-1"}' "$address" "$service/DecrementElicitation"
[ "$status" -ne 0 ]
expect 'Code: FailedPrecondition'
expect 'NO_OUTSTANDING_ELICITATION'

echo
echo "The program of the project says the same."
show pausewatch get --address "$listening" --thread-id thread-1
expect '^thread-1: running'
