#!/usr/bin/env python3
"""Asks a person at the terminal to approve something, and holds the thread meanwhile, so that no command of it times out.

Exit codes: 0 approved; 1 declined; 2 the answer came too late, or something went wrong.

    PAUSEWATCH_THREAD_ID=thread-1 python examples/approve.py "Delete the branch?"
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from pausewatch import Client, ElicitationExpired, ElicitationReleased, ElicitationUnknown, PausewatchError

APPROVED, DECLINED, TROUBLE = 0, 1, 2


def main() -> int:
    options = arguments()
    try:
        with (
            Client.from_env(address=options.address, thread_id=options.thread_id) as client,
            client.hold(reason=options.question, ttl=options.ttl),
        ):
            approved = ask(options)
    except (ElicitationExpired, ElicitationReleased, ElicitationUnknown) as error:
        return trouble(f"the answer came too late, commands may have timed out: {error}")
    except (PausewatchError, OSError, EOFError) as error:
        return trouble(str(error))
    return APPROVED if approved else DECLINED


def ask(options: argparse.Namespace) -> bool:
    """The person's answer. Silence is no answer: only yes is yes."""
    if options.answer_after is not None:
        print(f"{options.question} [y/N] (a person thinks for {options.answer_after:g} s)", file=sys.stderr)
        time.sleep(options.answer_after)
        return not options.deny
    # The terminal itself, not standard input: what is piped through the program that asks cannot answer.
    with Path("/dev/tty").open("r+b", buffering=0) as terminal:
        terminal.write(f"{options.question} [y/N] ".encode())
        answer = terminal.readline()
    if not answer:
        raise EOFError("the terminal was closed before an answer came")
    return answer.strip().lower() in (b"y", b"yes")


def trouble(text: str) -> int:
    print(f"approve: {text}", file=sys.stderr)
    return TROUBLE


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Asks a person to approve something; exits 0 for yes, 1 for no, 2 too late.")
    parser.add_argument("question", help="what the person is asked")
    parser.add_argument("--address", help="the coordinator (default: PAUSEWATCH_ADDRESS, else 127.0.0.1:7420)")
    parser.add_argument("--thread-id", help="the thread to hold (default: PAUSEWATCH_THREAD_ID)")
    parser.add_argument("--ttl", type=float, default=30, help="seconds that the hold outlives a crash (default: 30)")
    parser.add_argument("--answer-after", type=float, metavar="SECONDS", help="do not ask; answer yes after so long")
    parser.add_argument("--deny", action="store_true", help="with --answer-after: answer no")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
