"""Argument over environment over config file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.vectors import ADDRESSES, Json, cases, only

import pausewatch
from pausewatch import Address, AsyncClient, Client, Config, ConfigError, Tls


@pytest.mark.parametrize("case", cases("settings.json"))
def test_vectors(case: Json, tmp_path: Path) -> None:
    only(case, "name", "files", "config_file", "options", "environment", "expect", "error")
    for name, content in case.get("files", {}).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    environ = {name: value.replace("$DIR", str(tmp_path)) for name, value in case.get("environment", {}).items()}
    config_file = tmp_path / case["config_file"] if "config_file" in case else None
    if "error" in case:
        assert "expect" not in case
        with pytest.raises(ConfigError) as error:
            Config.load(config_file=config_file, environ=environ, **case.get("options", {}))
        text = str(error.value).lower()
        assert [part for part in case["error"] if part.lower() not in text] == [], text
        assert "s3cret" not in text
    else:
        config = Config.load(config_file=config_file, environ=environ, **case.get("options", {}))
        files = {f"tls_{name}": getattr(config.tls, name) for name in ("ca", "cert", "key")}
        loaded = {"address": str(config.address), "thread_id": config.thread_id, "token": config.token}
        loaded |= {name: None if path is None else str(path) for name, path in files.items()}
        assert {name: loaded[name] for name in case["expect"]} == case["expect"]


def test_without_settings_it_is_the_default() -> None:
    assert Config.load(environ={}) == Config() == Config(Address.parse("127.0.0.1:7420"), deadline=5.0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('adress = "h:1"', "unknown key 'adress'; known: address, thread_id, token, tls_ca, tls_cert, tls_key"),
        ("thread_id = 7", "thread_id must be a string"),
    ],
)
def test_errors_in_a_file_are_explained(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        Config.load(config_file=path, environ={})
    assert why in str(error.value)


@pytest.fixture
def another_user() -> Iterator[int]:
    """The process is a user who cannot read what belongs to root; as root, until the end of the test."""
    if os.geteuid() != 0:
        yield os.geteuid()
        return
    os.seteuid(65534)
    yield 65534
    os.seteuid(0)


def test_a_file_in_the_home_of_another_user_is_ignored_with_a_warning(
    another_user: int, caplog: pytest.LogCaptureFixture
) -> None:
    # As after `su` without `-`. The directory of root is nobody else's.
    assert Config.load(environ={"HOME": "/root"}) == Config.load(environ={})
    assert "belongs to another user; correct HOME" in caplog.text
    with tempfile.TemporaryDirectory() as own:
        path = Path(own, ".config", "pausewatch", "config.toml")
        path.parent.mkdir(parents=True)
        path.touch(mode=0)
        with pytest.raises(ConfigError, match="Permission denied"):
            Config.load(environ={"HOME": own})


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('\ufeffthread_id = "t"', "utf-8")
    assert Config.load(config_file=path, environ={}).thread_id == "t"


def test_tls_files_need_an_https_address() -> None:
    with pytest.raises(ConfigError, match="tls_ca is set, and the address 127.0.0.1:7420 is plain text: write https"):
        Config.load(environ={"PAUSEWATCH_TLS_CA": "ca.pem"})
    with pytest.raises(ConfigError, match="tls_cert is set, and the address"):
        Config.load(tls_cert="c.pem", tls_key="k.pem", environ={})
    loaded = Config.load(address="https://h", tls_ca="ca.pem", environ={})
    assert loaded.tls == Tls(ca=Path("ca.pem"))


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_an_unreadable_tls_file_is_named(client: type[Client | AsyncClient]) -> None:
    with pytest.raises(ConfigError, match=r"tls_ca nowhere\.pem: No such file"):
        client(Config(Address.parse("https://h"), tls=Tls(ca=Path("nowhere.pem"))))


@pytest.mark.parametrize("token", ADDRESSES["tokens_taken"])
def test_tokens_that_every_language_accepts_are_accepted(token: str) -> None:
    assert Config(token=token).token == token


@pytest.mark.parametrize("token", ADDRESSES["tokens_refused"])
def test_a_token_with_other_characters_is_refused_and_not_printed(token: str) -> None:
    with pytest.raises(ConfigError) as error:
        Config(token=token)
    assert not token or token not in str(error.value)


def test_a_token_is_in_no_repr() -> None:
    config = Config(token="s3cret")
    with Client(config) as client:
        assert "s3cret" not in repr((config, client, client._connection._spec))


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), "5", None])
def test_a_deadline_is_a_length_above_zero(deadline: Any) -> None:
    with pytest.raises(ConfigError, match=r"deadline .*: must be a number of seconds or a timedelta, above 0"):
        Config(deadline=deadline)


@pytest.mark.parametrize("retries", [-1, "3"])
def test_retries_are_a_number(retries: Any) -> None:
    with pytest.raises(ConfigError, match=f"retries {retries!r}: must be 0 or more, or None"):
        Config(retries=retries)


HTTPS = Address.parse("https://h")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda wrong: wrong.Config("h:1"), "address has the type str; allowed: an Address"),
        (lambda wrong: wrong.Client("h:1"), "config has the type str; allowed: a Config; Client.from_env(address=…)"),
        (lambda wrong: wrong.AsyncClient("h:1"), "config has the type str; allowed: a Config; AsyncClient.from_env(address=…)"),
        (lambda wrong: wrong.Address.parse(5), "address has the type int"),
        (lambda wrong: wrong.Tls(ca="ca.pem"), "ca has the type str; allowed: a pathlib.Path"),
        (lambda wrong: wrong.Config(HTTPS, tls="ca.pem"), "tls has the type str"),
        (lambda wrong: wrong.Config(HTTPS, credentials="x"), "credentials has the type str"),
        (lambda wrong: wrong.Config(thread_id=5), "thread_id has the type int"),
        (lambda wrong: wrong.Config(token=b"s3cret"), "token has the type bytes"),
        (lambda wrong: wrong.Config(token_source="s3cret"), "token_source has the type str; allowed: a function"),
        (lambda wrong: wrong.Config(on_link=5), "on_link has the type int"),
        (lambda wrong: wrong.Config(interceptors=5), "interceptors has the type int"),
        (lambda wrong: wrong.Client(Config()).watch(5), "thread_ids has the type int"),
    ],
)
def test_an_argument_of_another_type_is_named_at_once(make: Any, text: str) -> None:
    with pytest.raises(TypeError) as error:
        make(pausewatch)
    assert text in str(error.value)
    assert "s3cret" not in str(error.value)
