"""Transports of one's own: interceptors, channels, credentials, certificates that are in no file."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

import grpc
import grpc.aio
import pytest
import trustme
from support.server import Server
from support.service import Serving

import pausewatch as pw
from pausewatch.config import Config


class _Details(NamedTuple):
    method: str
    timeout: float | None
    metadata: Any
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


def _marked(details: Any) -> _Details:
    metadata = [*(details.metadata or ()), ("x-mark", "mine")]
    return _Details(details.method, details.timeout, metadata, details.credentials, details.wait_for_ready, details.compression)


class Marks(grpc.UnaryUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):
    def __init__(self) -> None:
        self.methods: list[str] = []

    def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        self.methods.append(details.method)
        return continuation(_marked(details), request)

    def intercept_stream_stream(self, continuation: Callable[..., Any], details: Any, requests: Iterator[Any]) -> Any:
        self.methods.append(details.method)
        return continuation(_marked(details), requests)


_span = ContextVar("span", default="none")


class Spans(grpc.UnaryUnaryClientInterceptor):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        self.seen.append(_span.get())
        return continuation(details, request)


def test_interceptors_see_the_context_of_the_caller(server: Server) -> None:
    spans = Spans()
    with pw.Client(Config(pw.Address.parse(server.address), interceptors=[spans])) as client:
        _span.set("mine")
        client.get_pause_state("t")
    assert spans.seen == ["mine"]


class AsyncMarks(grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        details.metadata.add("x-mark", "mine")
        return await continuation(details, request)


class Failing(grpc.UnaryUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Fails at the first renewal and at the first stream; `renewed`: a later renewal was sent."""

    def __init__(self) -> None:
        self.failed: set[str] = set()
        self.renewed = threading.Event()

    def before(self, method: str) -> None:
        name = method.rpartition("/")[2]
        if name not in {"RenewElicitation", "Watch"}:
            return
        if name not in self.failed:
            self.failed.add(name)
            raise LookupError(f"no credentials for {name}")
        if name == "RenewElicitation":
            self.renewed.set()

    def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        self.before(details.method)
        return continuation(details, request)

    def intercept_stream_stream(self, continuation: Callable[..., Any], details: Any, requests: Iterator[Any]) -> Any:
        self.before(details.method)
        return continuation(details, requests)


def test_an_interceptor_that_fails_once_ends_no_renewals_and_no_watch(caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing()
    with Serving() as serving, pw.Client(Config.load(address=serving.address, interceptors=[failing])) as client:
        with client.hold("t", ttl=0.3), client.watch(["t"]) as watch:
            lost = watch.next(20)
            assert isinstance(lost, pw.Disconnected)
            assert str(lost.error) == "LookupError: no credentials for Watch"
            assert isinstance(watch.next(20), pw.State)
            assert failing.renewed.wait(20)
    assert (logging.WARNING, "a renewal failed") in [(each.levelno, each.getMessage()) for each in caplog.records]


def test_interceptors_wrap_calls_and_streams(server: Server, thread_id: str) -> None:
    marks = Marks()
    config = Config.load(address=server.address, thread_id=thread_id, interceptors=[marks])
    with pw.Client(config) as client, client.hold(), client.stopwatch(10) as stopwatch:
        with client.watch() as watch:
            assert isinstance(watch.next(10), pw.State)
        assert not stopwatch.is_expired
    service = "/pausewatch.v1.ElicitationService/"
    assert {f"{service}{name}" for name in ("IncrementElicitation", "DecrementElicitation", "Watch")} <= set(marks.methods)


async def test_interceptors_change_what_is_sent() -> None:
    with Serving() as serving:
        with pw.Client(Config.load(address=serving.address, interceptors=[Marks()])) as client:
            client.get_pause_state("t")
        async with pw.AsyncClient(Config.load(address=serving.address, interceptors=[AsyncMarks()])) as async_client:
            await async_client.get_pause_state("t")
        assert [metadata.get("x-mark") for metadata in serving.service.metadata] == ["mine", "mine"]


async def test_an_own_channel_is_used_and_not_closed(server: Server, thread_id: str) -> None:
    with grpc.insecure_channel(server.address) as channel:
        for _ in range(2):
            with pw.Client(Config(channel=channel, thread_id=thread_id)) as client, client.hold() as hold:
                assert hold.opened.count == 1
    async with grpc.aio.insecure_channel(server.address) as async_channel:
        for _ in range(2):
            async with pw.AsyncClient(Config(channel=async_channel, thread_id=thread_id)) as async_client:
                async with async_client.hold() as async_hold:
                    assert async_hold.opened.count == 1
        with pytest.raises(pw.ConfigError, match=r"a Client needs a grpc\.Channel"):
            pw.Client(Config(channel=async_channel))


def test_certificates_and_credentials_need_no_files() -> None:
    ca = trustme.CA()
    issued = ca.issue_cert("localhost")
    mine = ca.issue_cert("client@example.com")
    ca_pem, cert, key = ca.cert_pem.bytes(), mine.cert_chain_pems[0].bytes(), mine.private_key_pem.bytes()
    pair = (issued.private_key_pem.bytes(), issued.cert_chain_pems[0].bytes())
    with Serving(grpc.ssl_server_credentials([pair], ca_pem, require_client_auth=True)) as serving:
        address = pw.Address.parse(serving.address)
        ways = (
            Config(address, tls=pw.Tls(ca=ca_pem, cert=cert, key=key)),
            Config(address, credentials=grpc.ssl_channel_credentials(ca_pem, key, cert)),
        )
        for config in ways:
            with pw.Client(config) as client:
                assert client.get_pause_state("t").thread_id == "t"


def test_contradictory_settings_are_refused_with_advice() -> None:
    credentials = grpc.ssl_channel_credentials()
    https = pw.Address.parse("https://localhost:1")
    with pytest.raises(pw.ConfigError, match="write https://"):
        Config(credentials=credentials)
    with pytest.raises(pw.ConfigError, match="set one of them"):
        Config(https, tls=pw.Tls(ca=b"-----BEGIN CERTIFICATE-----"), credentials=credentials)
    with grpc.insecure_channel("localhost:1") as channel, pytest.raises(pw.ConfigError, match="either the channel or these"):
        Config(channel=channel, interceptors=[Marks()])
    for tls, name in ((pw.Tls(ca=b"no"), "tls_ca"), (pw.Tls(cert=b"s3cret", key=b"s3cret"), "tls_key")):
        with pytest.raises(pw.ConfigError, match=name) as error:
            pw.Client(Config(https, tls=tls))
        assert "s3cret" not in str(error.value)
    assert "s3cret" not in repr(pw.Tls(key=b"s3cret"))
