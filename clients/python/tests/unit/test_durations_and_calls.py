"""What is sent for what was given."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

import pausewatch as pw
from pausewatch._io import calls
from pausewatch._io.durations import MAX_DURATION, in_words, to_nanos
from pausewatch.messages import Incremented
from pausewatch.v1 import elicitation_service_pb2 as pb

LENGTHS = "allowed: a number of seconds or a timedelta"


@pytest.mark.parametrize(
    ("given", "nanos"),
    [
        (1.5, 1_500_000_000),
        (0.1, 100_000_000),
        (timedelta(days=1, microseconds=1), 86_400_000_001_000),
        (-1, -1_000_000_000),
        (float("inf"), MAX_DURATION),
        (-1e300, -MAX_DURATION),
        (timedelta.max, MAX_DURATION),
    ],
)
def test_seconds_and_timedeltas_are_lengths(given: pw.Seconds, nanos: int) -> None:
    assert to_nanos(given) == nanos


def test_nan_is_not_a_length() -> None:
    with pytest.raises(ValueError, match="NaN"):
        to_nanos(float("nan"))


def test_lengths_are_printed_in_seconds() -> None:
    assert (in_words(to_nanos(30)), in_words(to_nanos(0.25))) == ("30 s", "0.25 s")


@pytest.mark.parametrize(
    ("ttl", "sent"),
    [(1.5, Duration(seconds=1, nanos=500_000_000)), (-1.5, Duration(seconds=-1, nanos=-500_000_000)), (0, Duration())],
)
def test_a_ttl_is_sent_unchecked(ttl: float, sent: Duration) -> None:
    request = calls.renew("t", "e", ttl=ttl).request
    assert isinstance(request, pb.RenewElicitationRequest)
    assert request.ttl == sent
    assert not calls.renew("t", "e").request.HasField("ttl")


def test_a_call_without_a_request_id_gets_a_random_one() -> None:
    first, second = calls.increment("t").request, calls.increment("t").request
    assert isinstance(first, pb.IncrementElicitationRequest)
    assert isinstance(second, pb.IncrementElicitationRequest)
    assert len(first.request_id) == 36
    assert first.request_id != second.request_id


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: calls.get("\ud800"), "thread_id"),
        (lambda: calls.increment("t", reason="\ud800"), "reason"),
        (lambda: calls.list_page(page_size=2**40), "page_size"),
        (lambda: calls.increment("t", ttl=float("nan")), "ttl"),
    ],
)
def test_an_unencodable_value_is_an_invalid_field(make: object, field: str) -> None:
    with pytest.raises(pw.InvalidField) as error:
        make()  # type: ignore[operator]
    assert (error.value.field, error.value.reason) == (field, "INVALID_FIELD")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda client: client.increment_elicitation(5), "thread_id has the type int; allowed: a str"),
        (lambda client: client.increment_elicitation("t", reason=5), "reason has the type int; allowed: a str"),
        (lambda client: client.hold("t", holder=5).open(), "holder has the type int; allowed: a str"),
        (
            lambda client: client.renew_elicitation("t", elicitation_id="e", ttl="5"),
            f"ttl has the type str; {LENGTHS}",
        ),
        (lambda client: client.list_pause_states(page_size="5"), "page_size has the type str; allowed: an int"),
        (lambda client: client.list_pause_states(include_running="yes"), "include_running has the type str; allowed: a bool"),
        (lambda client: client.list_pauses(start_time=5), "start_time has the type int; allowed: a datetime"),
        (lambda client: client.watch([5]), "thread_id has the type int; allowed: a str"),
        (lambda client: client.stopwatch(1, thread_id=5), "thread_id has the type int; allowed: a str"),
        (lambda client: client.stopwatch("5", thread_id="t"), f"limit has the type str; {LENGTHS}"),
        (lambda client: client.stopwatch(float("nan"), thread_id="t"), f"limit is nan; {LENGTHS}"),
        (lambda client: client.stopwatch(1, thread_id="t", max_wall=[5]), f"max_wall has the type list; {LENGTHS}"),
        (
            lambda client: client.stopwatch(1, thread_id="t", disconnect_grace=None),
            f"disconnect_grace has the type NoneType; {LENGTHS}",
        ),
        (lambda client: client.stopwatch(None, thread_id="t").wait_expired("5"), f"timeout has the type str; {LENGTHS}"),
        (lambda client: client.watch(["t"]).next("5"), f"timeout has the type str; {LENGTHS}"),
        (lambda client: client.get_pause_state("t", deadline="5"), f"deadline has the type str; {LENGTHS}"),
        (lambda client: client.hold("t", ttl=None).open(), f"ttl has the type NoneType; {LENGTHS}"),
        (lambda client: client.hold("t", ttl=float("nan"), best_effort=True).open(), f"ttl is nan; {LENGTHS}"),
    ],
)
def test_a_value_of_a_wrong_type_is_an_invalid_field(make: Callable[[Any], object], problem: str) -> None:
    # Nobody listens there.
    with pw.Client(pw.Config(pw.Address.parse("127.0.0.1:1"), retries=0)) as client, pytest.raises(pw.InvalidField) as error:
        make(client)
    assert error.value.description == problem


@pytest.mark.parametrize(
    ("use", "field"),
    [
        (lambda client: client.get_pause_state("t", deadline="5"), "deadline"),
        (lambda client: client.hold("t", ttl=None).open(), "ttl"),
        (lambda client: client.pausable_timeout("5", thread_id="t").__aenter__(), "limit"),
    ],
)
async def test_a_value_of_a_wrong_type_is_an_invalid_field_of_an_async_client(use: Callable[[Any], Any], field: str) -> None:
    # Nobody listens there.
    async with pw.AsyncClient(pw.Config(pw.Address.parse("127.0.0.1:1"), retries=0)) as client:
        with pytest.raises(pw.InvalidField) as error:
            await use(client)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("thread_id", "problem"),
    [
        ("", "thread_id is empty; allowed: 1 to 256 bytes"),
        ("é" * 129, "thread_id has 258 bytes; allowed: 1 to 256"),
        ("a\x07", "thread_id has a control character; allowed: none"),
        ("a\x85", "thread_id has a control character; allowed: none"),
        ("\ud800", "thread_id is not Unicode text; allowed: UTF-8"),
    ],
)
def test_invalid_thread_ids_are_refused_with_the_servers_wording(thread_id: str, problem: str) -> None:
    with pytest.raises(pw.InvalidField) as error:
        calls.check_thread_id(thread_id)
    assert str(error.value) == problem


@pytest.mark.parametrize("thread_id", ["t", "é" * 128, "线程 1", " ", "\u200b\U0001f9ca"])
def test_other_ids_are_accepted(thread_id: str) -> None:
    calls.check_thread_id(thread_id)


def test_results_have_python_types_whatever_the_server_sends() -> None:
    state = pw.PauseState.read(
        pb.PauseState(
            paused_total=Duration(seconds=2**62),
            paused_for=Duration(seconds=1, nanos=1_999),
            pause_start_time=Timestamp(seconds=86_400, nanos=5_000),
            elicitations=[pb.Elicitation(create_time=Timestamp(seconds=-(2**62)))],
        )
    )
    assert state.paused_total == timedelta.max
    assert state.paused_for == timedelta(seconds=1, microseconds=1)
    assert state.pause_start_time == datetime(1970, 1, 2, 0, 0, 0, 5, UTC)
    assert state.elicitations[0].create_time == datetime.min.replace(tzinfo=UTC)
    assert state.elicitations[0].expire_time is None


def test_an_increment_without_its_elicitation_is_an_error() -> None:
    with pytest.raises(pw.CallError, match="no elicitation"):
        Incremented.read(pb.IncrementElicitationResponse(count=1))
