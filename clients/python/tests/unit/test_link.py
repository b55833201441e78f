"""The link changes that are reported to a program, on a manual clock: a disconnect grace of 30 s."""

from __future__ import annotations

import logging

import pytest
from support.stopwatch_stage import LOST, Stage

import pausewatch as pw


def reported(stage: Stage) -> list[tuple[pw.LinkState, float | None, pw.CallError | None]]:
    return [(link.state, link.since, link.error) for link in stage.links]


def test_connect_disconnect_and_the_end_of_the_grace_are_reported_once_each(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.linked(limit=None)
    stage.move_to(5)
    with caplog.at_level(logging.INFO, "pausewatch"):
        stage.disconnect()
        stage.move_to(34)
        connected = (pw.LinkState.CONNECTED, None, None)
        lost_at = stage.links[1].since
        assert reported(stage) == [connected, (pw.LinkState.DISCONNECTED, lost_at, LOST)]
        stage.move_to(36)
        assert reported(stage)[2:] == [(pw.LinkState.GRACE_SPENT, lost_at, LOST)]
        stage.reconnect(40)
        stage.connected = True
        stage.stream.state("t", 1)
        stage.stream.complete()
    assert reported(stage)[3:] == [connected]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]


def test_a_reconnect_within_the_grace_does_not_spend_it() -> None:
    stage = Stage()
    stage.linked(limit=None)
    stage.disconnect()
    stage.reconnect(stage.runtime.seconds)
    stage.connected = True
    stage.stream.state("t", 1)
    stage.stream.complete()
    stage.move_to(100)
    states = [link.state for link in stage.links]
    assert states[:3] == [pw.LinkState.CONNECTED, pw.LinkState.DISCONNECTED, pw.LinkState.CONNECTED]
    assert states.count(pw.LinkState.CONNECTED) == 2


def test_a_closed_client_reports_nothing() -> None:
    stage = Stage()
    stage.linked(limit=None)
    stage.disconnect()
    stage.controller.close()
    stage.move_to(100)
    assert [link.state for link in stage.links] == [pw.LinkState.CONNECTED, pw.LinkState.DISCONNECTED]
