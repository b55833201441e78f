"""The lease of a hold, on a moved clock."""

from __future__ import annotations

from datetime import timedelta

import pytest
from grpc import StatusCode
from support.fake_runtime import FakeRuntime
from support.vectors import Json, cases, only

import pausewatch as pw
from pausewatch._hold.lease import LeaseRecord
from pausewatch._hold.renewal import Renewal
from pausewatch._io.durations import SECOND
from pausewatch.hold import this_program

ELICITATION = pw.Elicitation("e", "t", "", "", None, None)
LOST = pw.Unavailable.of("connection lost")


class Held:
    """An elicitation that was opened at 0."""

    def __init__(self, ttl: float = 30) -> None:
        self.runtime = FakeRuntime()
        self.reported: list[pw.Lease] = []
        record = LeaseRecord(round(ttl * SECOND), self.runtime.now(), self.runtime.now())
        self.renewal = Renewal(self.runtime, ELICITATION, record, 5 * SECOND, self._changed)

    def _changed(self) -> None:
        self.reported.append(self.renewal.lease())


ANSWERS: dict[str, object] = {
    "ok": ELICITATION,
    "UNAVAILABLE": LOST,
    "PERMISSION_DENIED": pw.PermissionDenied(pw.Status(StatusCode.PERMISSION_DENIED, "no")),
    "INTERNAL": pw.CallError(pw.Status(StatusCode.INTERNAL, "a defect")),
    "ELICITATION_EXPIRED": pw.ElicitationExpired(pw.Status(StatusCode.FAILED_PRECONDITION, "gone", "ELICITATION_EXPIRED")),
    "ELICITATION_RELEASED": pw.ElicitationReleased(pw.Status(StatusCode.FAILED_PRECONDITION, "gone", "ELICITATION_RELEASED")),
    "ELICITATION_UNKNOWN": pw.ElicitationUnknown(pw.Status(StatusCode.NOT_FOUND, "gone", "ELICITATION_UNKNOWN")),
}


@pytest.mark.parametrize("case", cases("renewal.json"))
def test_vectors(case: Json) -> None:
    only(case, "name", "ttl_ms", "steps")
    held = Held(case["ttl_ms"] / 1_000)
    for step in case["steps"]:
        only(step, "at_ms", "answer", "expect")
        held.runtime.move_to(step["at_ms"] / 1_000)
        if "answer" in step:
            held.runtime.calls[0].answer(ANSWERS[step["answer"]])
        known = {"sent": held.runtime.sent, "lease": held.renewal.lease().value}
        expect = step.get("expect", {})
        assert {key: known[key] for key in expect} == expect, step
    assert all((call.call.method, call.timeout) == ("RenewElicitation", 5 * SECOND) for call in held.runtime.calls)


def refused(kind: type[pw.CallError]) -> pw.CallError:
    return kind(pw.Status(StatusCode.NOT_FOUND, "gone"))


def test_it_is_overdue_after_a_ttl_without_renewal_and_held_again_after_one() -> None:
    held = Held()
    held.runtime.move_to(10)
    held.runtime.calls[0].answer(LOST)
    held.runtime.move_to(29.9)
    assert held.renewal.lease() is pw.Lease.HELD
    held.runtime.move_to(30)
    assert held.renewal.lease() is pw.Lease.OVERDUE
    assert held.reported[-1] is pw.Lease.OVERDUE, "who waits for it is reported, though the renewal is still under way"
    held.runtime.calls[0].answer(ELICITATION)
    assert held.reported[-1] is held.renewal.lease() is pw.Lease.HELD
    held.runtime.move_to(59.9)
    assert held.renewal.lease() is pw.Lease.HELD, "counted from the answer"


def test_waiters_are_notified_of_an_overdue_lease_after_a_renewal_too() -> None:
    held = Held()
    held.runtime.move_to(10)
    held.runtime.calls[0].answer(ELICITATION)
    held.runtime.move_to(39.9)
    assert pw.Lease.OVERDUE not in held.reported
    held.runtime.move_to(40)
    assert held.reported[-1] is pw.Lease.OVERDUE


@pytest.mark.parametrize(
    ("error", "lease"),
    [
        (pw.ElicitationExpired, pw.Lease.EXPIRED),
        (pw.ElicitationReleased, pw.Lease.RELEASED),
        (pw.ElicitationUnknown, pw.Lease.UNKNOWN),
    ],
)
def test_it_ends_when_the_server_reports_it_and_is_not_renewed_any_more(error: type[pw.CallError], lease: pw.Lease) -> None:
    held = Held()
    held.runtime.move_to(10)
    held.runtime.calls[0].answer(refused(error))
    assert held.reported[-1] is lease
    held.runtime.move_to(1_000)
    assert (held.runtime.calls, held.runtime.timers, held.renewal.lease()) == ([], 0, lease)


@pytest.mark.parametrize(("retry_after", "earliest", "latest"), [(2, 2, 2.2), (3_600, 3.9, 4)])
def test_the_rate_limit_delay_of_a_renewal_is_at_most_4_s(retry_after: float, earliest: float, latest: float) -> None:
    held = Held()
    held.runtime.move_to(10)
    limit = {"limit": "calls-per-second"}
    status = pw.Status(StatusCode.RESOURCE_EXHAUSTED, "", "LIMIT_EXCEEDED", limit, retry_after=timedelta(seconds=retry_after))
    held.runtime.calls[0].answer(pw.LimitExceeded(status))
    held.runtime.move_to(10 + earliest)
    assert held.runtime.calls == []
    held.runtime.move_to(10 + latest)
    held.runtime.calls[0].answer(ELICITATION)
    assert held.renewal.lease() is pw.Lease.HELD


def test_a_stopped_renewal_leaves_no_call_or_timer() -> None:
    held = Held()
    held.runtime.move_to(10)
    held.renewal.stop(pw.Lease.RELEASED)
    held.renewal.stop(pw.Lease.EXPIRED)
    assert (held.runtime.calls, held.runtime.timers) == ([], 0)
    assert held.renewal.lease() is pw.Lease.RELEASED, "the first end stays"


@pytest.mark.parametrize(
    ("argument", "name"), [("/usr/bin/tool.py", "tool.py"), ("", "python"), ("a\x07b\ud800", "ab?"), ("é" * 300, "é" * 50)]
)
def test_a_holder_is_named_after_its_program(monkeypatch: pytest.MonkeyPatch, argument: str, name: str) -> None:
    monkeypatch.setattr("sys.argv", [argument])
    monkeypatch.setattr("os.getpid", lambda: 17)
    assert this_program() == f"{name}[17]"
    assert len(this_program().encode()) <= 256
