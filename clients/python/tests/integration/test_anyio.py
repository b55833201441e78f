"""`pausewatch.anyio`: AnyIO's cancel scopes with a clock that stands still, on asyncio and on Trio."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import anyio.to_thread
import pytest
import trio
from support.server import Server

import pausewatch as pw
from pausewatch import anyio as paused_anyio
from pausewatch.anyio import PausableScope, fail_after, move_on_after

Run = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=["asyncio", "trio"])
def run(request: pytest.FixtureRequest) -> Run:
    return partial(anyio.run, backend=request.param)


def test_a_block_that_exceeds_its_limit_is_ended(run: Run, client: pw.Client) -> None:
    async def main() -> None:
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            with fail_after(0.1, client=client) as failing:
                await anyio.sleep(60)
        assert time.monotonic() - started >= 0.1
        assert (failing.cancel_called, failing.cancelled_caught, failing.ended_by) == (True, True, pw.EndedBy.LIMIT)
        with move_on_after(0.1, client=client) as moving:
            await anyio.sleep(60)
        assert (moving.cancelled_caught, moving.ended_by) == (True, pw.EndedBy.LIMIT)

    run(main)


def test_a_trio_program_needs_no_runner_of_anyio(client: pw.Client) -> None:
    async def main() -> None:
        with trio.fail_after(30), client.hold():
            with move_on_after(0.2, client=client) as paused:
                await trio.sleep(0.6)
            assert paused.ended_by is None
        with trio.fail_after(30), move_on_after(0.1, client=client) as scope:
            await trio.sleep_forever()
        assert (scope.cancelled_caught, scope.ended_by) == (True, pw.EndedBy.LIMIT)

    trio.run(main)


def test_g1_a_question_that_outlasts_the_limit_does_not_end_the_block(run: Run, client: pw.Client) -> None:
    async def main() -> None:
        with client.hold():
            with fail_after(0.2, client=client) as scope:
                while not scope.stopwatch.is_paused:  # noqa: ASYNC110 # The scope has no such event.
                    await anyio.sleep(0.01)
                await anyio.sleep(1)
                assert scope.stopwatch.is_paused
        assert (scope.cancel_called, scope.ended_by) == (False, None)

    run(main)


def test_after_the_question_a_hang_is_ended(run: Run, client: pw.Client) -> None:
    async def main() -> None:
        hold = await anyio.to_thread.run_sync(client.hold().__enter__)
        released = False
        with pytest.raises(TimeoutError):
            with fail_after(0.2, client=client):
                await anyio.sleep(0.6)
                released = True
                await anyio.to_thread.run_sync(hold.release)
                await anyio.sleep(60)
        assert released

    run(main)


def test_max_wall_ends_a_paused_block(run: Run, client: pw.Client) -> None:
    async def main() -> None:
        with client.hold(), move_on_after(None, client=client, max_wall=0.2) as scope:
            await anyio.sleep(60)
        assert scope.ended_by is pw.EndedBy.MAX_WALL

    run(main)


def test_cancel_does_not_count_as_a_timeout(run: Run, client: pw.Client) -> None:
    async def main() -> None:
        with fail_after(60, client=client) as scope:
            scope.cancel()
            await anyio.sleep(60)
        assert (scope.cancelled_caught, scope.ended_by) == (True, None)

    run(main)


def test_scopes_nest_and_the_outer_one_ends_both(run: Run, client: pw.Client) -> None:
    async def main() -> None:
        with move_on_after(0.2, client=client) as outer:
            with move_on_after(60, client=client) as inner:
                await anyio.sleep(60)
        assert (outer.ended_by, inner.ended_by) == (pw.EndedBy.LIMIT, None)
        assert not inner.stopwatch.is_expired

    run(main)


def test_a_shielded_scope_ends_before_cancellation_from_outside_arrives(run: Run, client: pw.Client) -> None:
    async def main() -> None:
        finished = False
        with anyio.CancelScope() as outside:
            with fail_after(60, shield=True, client=client) as inside:
                outside.cancel()
                await anyio.sleep(0.1)
                assert inside.shield
                finished = True
                inside.shield = False
                await anyio.sleep(60)
        assert finished
        assert outside.cancelled_caught
        assert inside.ended_by is None

    run(main)


def test_errors_of_the_block_are_its_own(run: Run, client: pw.Client) -> None:
    async def main() -> None:
        with pytest.raises(KeyError):
            with fail_after(60, client=client) as scope:
                raise KeyError
        assert not scope.cancel_called

    run(main)


def test_the_limit_runs_from_the_entry(run: Run, client: pw.Client) -> None:
    async def main() -> None:
        scope = move_on_after(60, client=client)
        with pytest.raises(RuntimeError, match="has not been entered"):
            _ = scope.stopwatch
        await anyio.sleep(0.3)
        created_then_entered = time.monotonic()
        with scope:
            assert scope.stopwatch.elapsed() <= time.monotonic() - created_then_entered

    run(main)


def test_an_expiry_after_the_loop_has_ended_is_ignored(run: Run, client: pw.Client, caplog: pytest.LogCaptureFixture) -> None:
    left: list[PausableScope] = []

    async def main() -> None:
        scope = move_on_after(0.2, client=client)
        left.append(scope)
        # A block that is never left, as in a coroutine that its loop forgot.
        scope.__enter__()
        scope.cancel()
        scope._scope.__exit__(None, None, None)

    run(main)
    assert left[0].stopwatch.wait_expired(30)
    with client.stopwatch(0) as after:
        called: list[None] = []
        after.call_when_expired(lambda: called.append(None))
        after.wait_expired(30)
    assert not caplog.records


def test_invalid_threads_are_refused_at_the_entry(run: Run, client: pw.Client) -> None:
    async def main() -> None:
        with pytest.raises(pw.InvalidField):
            with move_on_after(1, thread_id="\n", client=client):
                pass

    run(main)


def test_the_client_of_the_environment_is_shared(
    run: Run, server: Server, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAUSEWATCH_ADDRESS", server.address)
    monkeypatch.setattr(paused_anyio, "_defaults", {})

    async def main() -> None:
        with move_on_after(0.1, thread_id=thread_id) as first:
            await anyio.sleep(60)
        with move_on_after(0.1, thread_id=thread_id) as second:
            await anyio.sleep(60)
        assert (first.ended_by, second.ended_by) == (pw.EndedBy.LIMIT, pw.EndedBy.LIMIT)

    run(main)
    (client,) = paused_anyio._defaults.values()
    client.close()
