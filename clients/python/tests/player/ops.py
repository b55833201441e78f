"""The operations, one method each; `clients/scenarios/README.md` says what they are to do."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pausewatch as pw
from pausewatch.config import DEADLINE, Config, TokenFile

from . import wire

if TYPE_CHECKING:
    from .styles import Tasks, Threads
    from .wire import Json

_ONE_MOMENT = 0.001
_ENDINGS: dict[type[Exception], str] = {
    pw.ElicitationExpired: "expired",
    pw.ElicitationReleased: "released",
    pw.ElicitationUnknown: "unknown",
}


class OwnError(Exception):
    """What the player itself raises in a block."""


class Ops:
    """One player, with all that it has open under the names that the stage gave."""

    def __init__(self, style: Threads | Tasks) -> None:
        self._style = style
        self._do = style.do
        self._clients: dict[str, Any] = {}
        self._holds: dict[str, Any] = {}
        self._watches: dict[str, Any] = {}
        self._stopwatches: dict[str, tuple[Any, float]] = {}
        self._pauses: dict[tuple[str, str], ExitStack] = {}
        self._waits: dict[tuple[str, str], ExitStack] = {}

    async def reset(self, _: Json) -> None:
        for block in [*self._pauses.values(), *self._waits.values()]:
            await self._do(block.close)
        for timeout in self._stopwatches.values():
            await self._do(timeout[0].stop)
        for watch in self._watches.values():
            await self._do(watch.close)
        for hold in self._holds.values():
            with suppress(pw.CallError):  # Its server may be gone.
                await self._do(hold.release)
        for client in self._clients.values():
            await self._do(client.close)
        self.__init__(self._style)  # type: ignore[misc]

    async def client(self, step: Json) -> None:
        deadline = wire.seconds(step, "deadline_ms") or DEADLINE
        named = wire.some(step, "address", "retries", "tls_ca", "token")
        if (path := step.get("token_file")) is not None:
            named["token_source"] = TokenFile(Path(path))
        config = Config.load(deadline=deadline, environ=step.get("environment", {}), **named)
        self._clients[step["client"]] = self._style.client(config)

    async def close(self, step: Json) -> None:
        await self._do(self._clients[step["client"]].close)

    async def increment(self, step: Json) -> Json:
        named = wire.some(step, "request_id", "reason", "holder")
        client = self._clients[step["client"]]
        answer = await self._do(client.increment_elicitation, step["thread_id"], ttl=wire.seconds(step, "ttl_ms"), **named)
        return {
            "count": answer.count,
            "paused": answer.paused,
            "revision": answer.revision,
            "elicitation_id": answer.elicitation.elicitation_id,
            "watchers": answer.watchers,
        }

    async def decrement(self, step: Json) -> Json:
        named = wire.some(step, "elicitation_id", "request_id")
        answer = await self._do(self._clients[step["client"]].decrement_elicitation, step["thread_id"], **named)
        return {"count": answer.count, "paused": answer.paused, "revision": answer.revision}

    async def renew(self, step: Json) -> Json:
        named = {"elicitation_id": step["elicitation_id"], "ttl": wire.seconds(step, "ttl_ms")}
        client = self._clients[step["client"]]
        return wire.elicitation(await self._do(client.renew_elicitation, step["thread_id"], **named))

    async def get(self, step: Json) -> Json:
        return wire.state(await self._do(self._clients[step["client"]].get_pause_state, step["thread_id"]))

    async def list(self, step: Json) -> Json:
        named = wire.some(step, "page_size", "page_token", "include_running")
        page = await self._do(self._clients[step["client"]].list_pause_states, **named)
        return {"states": [wire.state(each) for each in page.pause_states], "next_page_token": page.next_page_token}

    async def list_pauses(self, step: Json) -> Json:
        named = wire.some(step, "thread_id", "page_size", "page_token")
        page = await self._do(self._clients[step["client"]].list_pauses, **named)
        return {"pauses": [wire.pause(each) for each in page.pauses], "next_page_token": page.next_page_token}

    async def hold(self, step: Json) -> Json:
        hold = self._hold(step)
        await self._do(hold.open)
        self._holds[step["hold"]] = hold
        if hold.failure is not None:
            return {}
        return {"count": hold.opened.count, "elicitation_id": hold.elicitation.elicitation_id}

    async def release(self, step: Json) -> Json:
        return wire.release(await self._do(self._holds[step["hold"]].release))

    async def lease(self, step: Json) -> Json:
        return {"lease": self._holds[step["hold"]].lease.value}

    async def lost(self, step: Json) -> Json:
        return {"lease": (await self._do(self._holds[step["hold"]].lost)).value}

    async def hold_block(self, step: Json) -> Json:
        error = OwnError() if step["throws"] else None
        hold = self._hold(step)
        try:
            await self._style.hold_block(hold, step["stay_ms"] / 1_000, error)
        except OwnError:
            return {"left": "error"}
        except pw.CallError as late:
            if type(late) not in _ENDINGS:
                raise
            return {"left": "end", "ending": _ENDINGS[type(late)]}
        return {"left": "end", "ending": "closed" if hold.failure is None else "not_open"}

    async def watch(self, step: Json) -> None:
        named = wire.some(step, "include_elicitations", "observer")
        client = self._clients[step["client"]]
        self._watches[step["watch"]] = await self._do(client.watch, step.get("thread_ids"), **named)

    async def next(self, step: Json) -> Json:
        return wire.event(await self._style.next(self._watches[step["watch"]], step["within_ms"] / 1_000))

    async def add(self, step: Json) -> None:
        await self._do(self._watches[step["watch"]].add, step["thread_id"])

    async def remove(self, step: Json) -> None:
        await self._do(self._watches[step["watch"]].remove, step["thread_id"])

    async def unwatch(self, step: Json) -> None:
        await self._do(self._watches.pop(step["watch"]).close)

    async def timeout(self, step: Json) -> None:
        named: Json = {"thread_id": step["thread_id"]}
        if (grace := wire.seconds(step, "disconnect_grace_ms")) is not None:
            named["disconnect_grace"] = grace
        named["max_wall"] = wire.seconds(step, "max_wall_ms")
        client, limit = self._clients[step["client"]], step["limit_ms"] / 1_000

        def start() -> tuple[Any, float]:
            started = time.monotonic()
            return client.stopwatch(limit, **named), started

        self._stopwatches[step["timeout"]] = await self._do(start)

    async def read(self, step: Json) -> Json:
        stopwatch, started = self._stopwatches[step["timeout"]]
        while True:
            before = time.monotonic()
            answer = {
                "wall_ms": (before - started) * 1_000,
                "charged_ms": stopwatch.elapsed() * 1_000,
                "remaining_ms": stopwatch.remaining() * 1_000,
                "paused": stopwatch.is_paused,
                "expired": stopwatch.is_expired,
                "linked": stopwatch.is_linked,
            } | wire.ended_by(stopwatch)
            # All of one moment, unless something came between.
            if time.monotonic() - before < _ONE_MOMENT:
                return answer

    async def expired(self, step: Json) -> Json:
        stopwatch, started = self._stopwatches[step["timeout"]]
        await self._do(stopwatch.wait_expired)
        wall = (time.monotonic() - started) * 1_000
        return {"wall_ms": wall, "charged_ms": stopwatch.elapsed() * 1_000} | wire.ended_by(stopwatch)

    async def pause(self, step: Json) -> None:
        pause = self._pauses[step["timeout"], step["pause"]] = ExitStack()
        pause.enter_context(self._stopwatches[step["timeout"]][0].pause())

    async def resume(self, step: Json) -> None:
        self._pauses.pop((step["timeout"], step["pause"])).close()

    async def await_thread(self, step: Json) -> None:
        wait = ExitStack()
        wait.enter_context(self._stopwatches[step["timeout"]][0].await_thread(step["thread_id"]))
        self._waits[step["timeout"], step["wait"]] = wait

    async def unawait_thread(self, step: Json) -> None:
        self._waits.pop((step["timeout"], step["wait"])).close()

    async def stop(self, step: Json) -> Json:
        answer = await self.read(step)
        await self._do(self._stopwatches.pop(step["timeout"])[0].stop)
        return answer

    async def expire_together(self, step: Json) -> Json:
        begun, limit, count = time.monotonic(), step["limit_ms"] / 1_000, step["count"]
        client, loop, all_expired = self._clients[step["client"]], asyncio.get_running_loop(), asyncio.Event()
        reported: list[float] = []

        def expired() -> None:
            reported.append(time.monotonic())
            if len(reported) == count:
                loop.call_soon_threadsafe(all_expired.set)

        def start() -> None:
            for number in range(count):
                left = begun + limit - time.monotonic()
                client.stopwatch(left, thread_id=f"together-{number}").call_when_expired(expired)

        await self._do(start)
        await all_expired.wait()
        return {"late_ms": (max(reported) - begun - limit) * 1_000}

    async def timeout_block(self, step: Json) -> Json:
        limit, work = step["limit_ms"] / 1_000, step["work_ms"] / 1_000
        started = time.monotonic()
        client = self._clients[step["client"]]
        named = {"thread_id": step["thread_id"], "max_wall": wire.seconds(step, "max_wall_ms")}
        ended = await self._style.timeout_block(client, limit, work, named)
        answer: Json = {"wall_ms": (time.monotonic() - started) * 1_000}
        return answer | {"outcome": "finished" if ended.ended_by is None else "timed_out"} | wire.ended_by(ended)

    def _hold(self, step: Json) -> Any:
        named = wire.some(step, "reason", "holder", "best_effort")
        if (ttl := wire.seconds(step, "ttl_ms")) is not None:
            named["ttl"] = ttl
        return self._clients[step["client"]].hold(step.get("thread_id"), **named)
