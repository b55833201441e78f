"""Converts a configuration to the arguments of a gRPC channel, for threads and for an event loop."""

from __future__ import annotations

import asyncio
import random
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import grpc

from ..address import Scheme
from ..errors import ConfigError
from . import tokens
from .durations import Nanos, to_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..config import Config, Tls

_OPTIONS: tuple[tuple[str, Any], ...] = (
    # A dead peer is detected within 15 s, also on an idle connection.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # The client reconnects within half a second after the server is back. (The last option is the least time that a connect may
    # take.)
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 400),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    # Each client has a connection of its own, and is not affected by a broken connection of another.
    ("grpc.use_local_subchannel_pool", 1),
    # This library retries by itself, since it knows the deadline and the request id.
    ("grpc.enable_retries", 0),
    # The coordinator is on this host or nearby; the variable http_proxy is for the web.
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """The arguments of both kinds of channel."""

    address: str
    """The address as it was given, for errors."""
    targets: tuple[str, ...]
    """The gRPC target of each address, in random order, so that clients are distributed evenly over the replicas."""
    options: tuple[tuple[str, Any], ...]
    """The options of the channel."""
    credentials: grpc.ChannelCredentials | None
    """None: plain text."""
    token: str | None
    """The token of every call; never printed."""
    asking: tokens.Asking | None
    """Calls the token source for every call; used instead of `token`. None: there is no source."""
    interceptors: Sequence[Any]
    """The interceptors of every call and every stream."""
    own: Any
    """The program's own channel, used instead; this library does not close it."""

    async def next_token(self, limit: Nanos | None, deadline: Nanos | None = None) -> str | None:
        """The token of the source, for an event loop; None: there is no source. `deadline`: of the whole call, for the error.

        Raises Unauthenticated: the source returned no token. DeadlineExceeded: it gave none in time.
        """
        if self.asking is None:
            return None
        # Not cancelled with this task: others wait for it too.
        asked = asyncio.shield(asyncio.wrap_future(self.asking.ask()))
        try:
            return await asyncio.wait_for(asked, None if limit is None else to_seconds(limit))
        except TimeoutError:
            assert limit is not None
            raise tokens.late(deadline or limit) from None

    def metadata(self, next_token: str | None) -> tuple[tuple[str, str], ...]:
        """The metadata of a call."""
        token = next_token or self.token
        return () if token is None else (("authorization", f"Bearer {token}"),)

    @property
    def can_open_more(self) -> bool:
        """Whether a stream may have a connection of its own."""
        return self.own is None

    def open(self, moves: int = 0) -> grpc.Channel:
        """Opens a channel for threads. `moves`: how often the client has moved to another replica.

        Raises ConfigError: the program's own channel is for an event loop.
        """
        if self.own is not None:
            if not isinstance(self.own, grpc.Channel):
                raise ConfigError("channel: a Client needs a grpc.Channel; an AsyncClient takes one of grpc.aio")
            return self.own
        if self.credentials is None:
            channel = grpc.insecure_channel(self._target(moves), self.options)
        else:
            channel = grpc.secure_channel(self._target(moves), self.credentials, self.options)
        return grpc.intercept_channel(channel, *self.interceptors) if self.interceptors else channel

    def open_async(self, moves: int = 0) -> grpc.aio.Channel:
        """Opens a channel for the running event loop. Raises ConfigError: the program's own channel is for threads."""
        if self.own is not None:
            if not isinstance(self.own, grpc.aio.Channel):
                raise ConfigError("channel: an AsyncClient needs a grpc.aio.Channel; a Client takes a grpc.Channel")
            return self.own
        if self.credentials is None:
            return grpc.aio.insecure_channel(self._target(moves), self.options, interceptors=self.interceptors)
        return grpc.aio.secure_channel(self._target(moves), self.credentials, self.options, interceptors=self.interceptors)

    def _target(self, moves: int) -> str:
        return self.targets[moves % len(self.targets)]

    def __repr__(self) -> str:
        return f"ChannelSpec({self.targets!r})"


def channel_spec(config: Config) -> ChannelSpec:
    """Builds the arguments of the channel; reads the TLS files.

    Raises ConfigError: a file cannot be read, or its contents are not valid.
    """
    address = config.address
    if address.scheme is Scheme.UNIX:
        # gRPC decodes percent signs in a target. It would also use the path as the host of its requests, and a path is not a
        # valid host.
        targets, options = [f"unix:{quote(address.target)}"], (*_OPTIONS, ("grpc.default_authority", "localhost"))
    else:
        targets, options = [f"dns:///{each.target}" for each in address.each], _OPTIONS
    # A client with the program's own channel never moves.
    targets = random.sample(targets, len(targets) if config.channel is None else 1)
    credentials = config.credentials or (_credentials(config.tls) if address.scheme is Scheme.TLS else None)
    return ChannelSpec(
        "the channel" if config.channel is not None else str(address),
        tuple(targets),
        options,
        credentials,
        config.token,
        None if config.token_source is None else tokens.Asking(config.token_source),
        config.interceptors,
        config.channel,
    )


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    authorities, key, cert = (_contents(name, getattr(tls, name)) for name in ("ca", "key", "cert"))
    # gRPC accepts invalid files, and then every connection fails without an explanation.
    if authorities is not None:
        _check_authorities(tls.ca, authorities)
    if isinstance(tls.cert, Path) and isinstance(tls.key, Path):
        _check_pair(tls.cert, tls.key)
    return grpc.ssl_channel_credentials(authorities, key, cert)


def _check_authorities(source: Path | bytes | None, authorities: bytes) -> None:
    try:
        # A bundle may have comments in any alphabet between its certificates.
        _parser().load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError):
        what = f" {source}: not a PEM file" if isinstance(source, Path) else ": not PEM"
        raise ConfigError(f"tls_ca{what} with certificates") from None


def _check_pair(cert: Path, key: Path) -> None:
    # The files are read a second time, which is not possible with a pipe.
    if not (cert.is_file() and key.is_file()):
        return
    try:
        # The empty password prevents a prompt for one.
        _parser().load_cert_chain(cert, key, password=b"")
    except ssl.SSLError:
        raise ConfigError(
            f"tls_cert {cert} and tls_key {key}: are no PEM files of a certificate and of its key, which must not be encrypted"
        ) from None


def _parser() -> ssl.SSLContext:
    """Accepts every well-formed certificate and key; the server decides how strong they must be."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


def _contents(name: str, source: Path | bytes | None) -> bytes | None:
    if isinstance(source, bytes):
        if b"-----BEGIN " not in source:
            raise ConfigError(f"tls_{name}: not in PEM format")
        return source
    try:
        return None if source is None else source.read_bytes()
    except OSError as error:
        raise ConfigError(f"tls_{name} {source}: {error.strerror}") from None
