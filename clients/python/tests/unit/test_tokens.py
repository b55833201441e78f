"""Tokens that are replaced."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING

import pytest
from support.stopwatch_stage import Stage

import pausewatch as pw
from pausewatch._io import tokens
from pausewatch._io.durations import SECOND
from pausewatch.config import Config, TokenFile

if TYPE_CHECKING:
    from pathlib import Path


def json_web_token(claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


@pytest.mark.parametrize(
    ("token", "seconds"),
    [
        (json_web_token({"exp": 1_030}), 20),
        (json_web_token({"exp": 1_000_000}), 60),
        (json_web_token({"exp": 1_001}), 1),
        (json_web_token({"exp": 1}), 1),
        (json_web_token({"exp": "soon"}), 60),
        (json_web_token([]), 60),
        ("opaque", 60),
        ("a.b.c", 60),
        ("e30.+.c2ln", 60),
    ],
)
def test_a_token_is_renewed_after_two_thirds_of_its_remaining_lifetime(token: str, seconds: int) -> None:
    assert tokens.renewal_delay(token, 1_000.0) == seconds * SECOND


def test_a_source_that_fails_is_unauthenticated() -> None:
    def fails() -> str:
        raise OSError("no such vault")

    for source in (fails, lambda: "", lambda: "two words"):
        with pytest.raises(pw.Unauthenticated, match="no token: "):
            tokens.current_token(source)
    with pw.Client(Config(token_source=fails)) as client, pytest.raises(pw.Unauthenticated, match="no such vault"):
        client.get_pause_state("t")


def test_a_token_file_is_read_each_time_and_belongs_to_its_layer(tmp_path: Path) -> None:
    path = tmp_path / "token"
    environ = {"PAUSEWATCH_TOKEN_FILE": str(path)}
    source = Config.load(environ=environ).token_source
    assert source == TokenFile(path)
    for text in ("first", "second\n"):
        path.write_text(text)
        assert source() == text.strip()
    for wrong in (b"", b" \n", b"\xef\xbb\xbftoken", b"two words"):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=re.escape(f"the file {path} ")):
            source()
    given = Config.load(environ=environ, token="over")
    assert (given.token, given.token_source) == ("over", None)
    other = Config.load(environ=environ, token_source=lambda: "over")
    assert other.token_source is not None
    assert other.token_source() == "over"
    with pytest.raises(pw.ConfigError, match="set one of them"):
        Config.load(environ={**environ, "PAUSEWATCH_TOKEN": "t"})
    with pytest.raises(pw.ConfigError, match="plain text"):
        Config.load(environ=environ, address="example.com:1")


def test_an_open_stream_gets_the_next_token() -> None:
    stage = Stage()
    stage.runtime.token = "first"
    ticking = stage.start(limit=1_000)
    stage.move_to(0)
    stream = stage.stream
    stream.state("t", 1)
    stream.complete()
    stage.move_to(61)
    assert stream.request is None, "it is the same token"
    stage.runtime.token = "second"
    stage.move_to(121)
    assert stream.request is not None
    assert (stream.request.token, list(stream.request.add)) == ("second", [])
    stream.complete()
    assert ticking.is_linked
    assert stage.stream is stream
