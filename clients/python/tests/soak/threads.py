"""The synchronous client: exceptions of a signal handler interrupt the holds, which the main thread opens."""

from __future__ import annotations

import gc
import signal
import threading
import time
from contextlib import suppress

import pausewatch as pw

from .round import HANG_SECONDS, TTL, Round, rounds


class Interrupted(BaseException):
    pass


def _interrupt(*_: object) -> None:
    raise Interrupted


def holds(game: Round, client: pw.Client) -> None:
    """On the main thread: two of three are interrupted while they are opened or released."""
    while not game.is_over:
        thread_id, moment = f"{game.prefix}hold-{game.chance.randrange(20)}", game.chance.randrange(3)
        game.count("holds")
        hold = client.hold(thread_id, ttl=TTL)
        try:
            interruptible(game, hold.open, moment == 1)
            try:
                interruptible(game, hold.release, moment == 2)
            except Interrupted:
                game.count("cancelled")
                hold.release()
        except Interrupted:
            game.count("cancelled")
        except (pw.TransientError, pw.ElicitationUnknown):
            game.count("unknown")


def interruptible(game: Round, work: object, is_interrupted: bool) -> None:
    assert callable(work)
    try:
        if is_interrupted:
            signal.setitimer(signal.ITIMER_REAL, game.chance.uniform(1e-5, 0.02))
        work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def short_lives(game: Round) -> None:
    while not game.is_over:
        client = pw.Client(game.config())
        threading.Timer(game.chance.uniform(0, 0.05), client.close).start()
        with suppress(RuntimeError):
            client.watch([f"{game.prefix}short-{number}" for number in range(3)])
            client.stopwatch(60, thread_id=f"{game.prefix}short-0")
            try:
                client.hold(f"{game.prefix}short-hold", ttl=TTL).open()
                game.count("unknown")
            except pw.TransientError:
                game.count("unknown")
        client.close()


def deadlines(game: Round, client: pw.Client) -> None:
    while not game.is_over:
        over = threading.Semaphore(0)
        limits = [game.chance.uniform(0.2, 1) for _ in range(game.deadlines)]
        running = [timed(game, client, limit, f"{game.prefix}free-{number % 20}", over) for number, limit in enumerate(limits)]
        for limit in limits:
            began = time.monotonic()
            bare = threading.Timer(limit, bare_expired, (game, limit, began, over))
            bare.daemon = True
            bare.start()
        for _ in range(2 * len(limits)):
            if not over.acquire(timeout=HANG_SECONDS):
                game.count("hangs")
                return
        del running


def timed(game: Round, client: pw.Client, limit: float, thread_id: str, over: threading.Semaphore) -> pw.Stopwatch:
    began = time.monotonic()

    def expired() -> None:
        game.expired(limit, time.monotonic() - began)
        over.release()

    stopwatch = client.stopwatch(limit, thread_id=thread_id)
    stopwatch.call_when_expired(expired)
    return stopwatch


def bare_expired(game: Round, limit: float, began: float, over: threading.Semaphore) -> None:
    game.greatest("bare_late_ms", 1_000 * (time.monotonic() - began - limit))
    over.release()


def person(game: Round, client: pw.Client) -> None:
    thread_id = f"{game.prefix}person"
    hold = client.hold(thread_id, ttl=TTL)
    try:
        hold.open()
    except pw.TransientError:
        game.count("unknown")
        return
    with client.stopwatch(0.3, thread_id=thread_id) as stopwatch, client.watch([thread_id]) as watch:
        stay = max(0.6, game.seconds - 1)
        if stopwatch.wait_expired(stay):
            game.count("false_expiries")
        while (event := watch.next(0)) is not None:
            if isinstance(event, pw.Disconnected):
                game.count("disconnects")
        try:
            hold.release()
        except pw.TransientError:
            game.count("unknown")
        except pw.PausewatchError:
            game.count("false_expiries")
        if not stopwatch.wait_expired(HANG_SECONDS):
            game.count("hangs")
        elif stopwatch.elapsed() < 0.295:
            game.count("early")


def clock(game: Round, client: pw.Client) -> None:
    with client.stopwatch(60, thread_id=f"{game.prefix}clock") as stopwatch:
        began, before = time.monotonic(), stopwatch.elapsed()
        outer = time.monotonic()
        with stopwatch.pause():
            inner = time.monotonic()
            time.sleep(game.chance.uniform(0.1, 0.5))
            inner = time.monotonic() - inner
        outer = time.monotonic() - outer
        charged, wall = stopwatch.elapsed() - before, time.monotonic() - began
        game.clock_error(wall - charged, inner, outer)


def play(game: Round) -> None:
    client = pw.Client(game.config())
    threads = [
        threading.Thread(target=short_lives, args=(game,)),
        *(threading.Thread(target=work, args=(game, client)) for work in (deadlines, person, clock)),
    ]
    for thread in threads:
        thread.start()
    holds(game, client)
    for thread in threads:
        thread.join()
    client.close()
    gc.collect()
    give_up = time.monotonic() + HANG_SECONDS
    while threading.active_count() > 1 and time.monotonic() < give_up:
        time.sleep(0.01)
    game.answer(threading.active_count())


signal.signal(signal.SIGALRM, _interrupt)
for each in rounds():
    play(each)
