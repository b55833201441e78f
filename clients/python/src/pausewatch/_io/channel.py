"""From a configuration to the arguments of a gRPC channel, the same for threads and for an event loop."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..config import Config, Tls

_OPTIONS: tuple[tuple[str, Any], ...] = (
    # A peer that died without a word is noticed within 15 s, idle or not.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # A server that is back is found within half a second. (The last one is the least time that a connect may take.)
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 400),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    # A connection of its own: clients do not share each other's broken ones.
    ("grpc.use_local_subchannel_pool", 1),
    # Retries are made here, where the deadline and the request id are known.
    ("grpc.enable_retries", 0),
    # The address is the coordinator's, on this host or nearby; http_proxy is for the web.
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """What both kinds of channel are made from."""

    address: str
    """The address as it was given, for errors."""
    targets: tuple[str, ...]
    """gRPC's name for each address, in random order, so that clients share the replicas evenly."""
    options: tuple[tuple[str, Any], ...]
    """The settings of the channel."""
    credentials: grpc.ChannelCredentials | None
    """None: plain text."""
    token: str | None
    """Sent with every call, and never shown."""
    token_source: Callable[[], str] | None
    """Where it comes from instead, again for every call."""
    interceptors: Sequence[Any]
    """Around every call and every stream."""
    own: Any
    """A channel of the program's own instead; it is not ours to close."""

    def next_token(self) -> str | None:
        """The token of the source; None: there is no source. Raises Unauthenticated: there should be one, and is not."""
        return None if self.token_source is None else tokens.ask(self.token_source)

    def metadata(self, next_token: str | None) -> tuple[tuple[str, str], ...]:
        """What is sent with a call."""
        token = next_token or self.token
        return () if token is None else (("authorization", f"Bearer {token}"),)

    @property
    def can_open_more(self) -> bool:
        """Whether a stream may have a connection of its own."""
        return self.own is None

    def open(self, moves: int = 0) -> grpc.Channel:
        """A channel for threads, after so many moves from replica to replica.

        Raises ConfigError: that of the program is for an event loop.
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
        """A channel for the running event loop. Raises ConfigError: that of the program is for threads."""
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
    """Reads the files that TLS needs.

    Raises ConfigError: one cannot be read, or is not what it should be.
    """
    address = config.address
    if address.scheme is Scheme.UNIX:
        # gRPC decodes percent signs in a target, and would name the path as the host of its requests, which is no valid one.
        targets, options = [f"unix:{quote(address.target)}"], (*_OPTIONS, ("grpc.default_authority", "localhost"))
    else:
        targets, options = [f"dns:///{each.target}" for each in address.each], _OPTIONS
    # Nothing moves from a channel of the program's own.
    targets = random.sample(targets, len(targets) if config.channel is None else 1)
    credentials = config.credentials or (_credentials(config.tls) if address.scheme is Scheme.TLS else None)
    return ChannelSpec(
        "the channel" if config.channel is not None else str(address),
        tuple(targets),
        options,
        credentials,
        config.token,
        config.token_source,
        config.interceptors,
        config.channel,
    )


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    authorities, key, cert = (_contents(name, getattr(tls, name)) for name in ("ca", "key", "cert"))
    # gRPC takes whatever it is given, and then connects to nobody without a word.
    if authorities is not None:
        _check_authorities(tls.ca, authorities)
    if isinstance(tls.cert, Path) and isinstance(tls.key, Path):
        _check_pair(tls.cert, tls.key)
    return grpc.ssl_channel_credentials(authorities, key, cert)


def _check_authorities(source: Path | bytes | None, authorities: bytes) -> None:
    try:
        # Between its certificates a bundle may have names in any alphabet.
        _parser().load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError):
        named = f" {source}: is no PEM file" if isinstance(source, Path) else ": is no PEM"
        raise ConfigError(f"tls_ca{named} of certificates") from None


def _check_pair(cert: Path, key: Path) -> None:
    # It is read once more, which a pipe cannot be.
    if not (cert.is_file() and key.is_file()):
        return
    try:
        # With a password nobody is asked for one.
        _parser().load_cert_chain(cert, key, password=b"")
    except ssl.SSLError:
        raise ConfigError(
            f"tls_cert {cert} and tls_key {key}: are no PEM files of a certificate and of its key, which must not be encrypted"
        ) from None


def _parser() -> ssl.SSLContext:
    """What it can read is well-formed; how strong it must be is the server's to say."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


def _contents(name: str, source: Path | bytes | None) -> bytes | None:
    if isinstance(source, bytes):
        if b"-----BEGIN " not in source:
            raise ConfigError(f"tls_{name}: there is no PEM in it")
        return source
    try:
        return None if source is None else source.read_bytes()
    except OSError as error:
        raise ConfigError(f"tls_{name} {source}: {error.strerror}") from None
