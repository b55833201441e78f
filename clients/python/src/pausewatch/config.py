"""The settings of a client. An argument overrides the environment, which overrides the config file.

1. An empty variable counts as not set, and so does an empty value in the file. The variables for the thread are
   `THREAD_VARIABLES`: first pausewatch's own, then those that agents set for their commands.
2. A config file that was named must exist; the default one may be missing, or in the home of another user. An unknown key is
   an error: a typing mistake must not silently select the default.
3. A token or a certificate is never silently ignored, and a token is never sent over a network in plain text.
4. A token is in no repr, error or log.
5. A plaintext address overrides TLS settings (an https address, or files) of the lower layers completely: only the thread of
   these layers is used, because their other settings belong to another coordinator.
"""

from __future__ import annotations

import logging
import os
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, TypeAlias

import grpc
import grpc.aio

from ._io.durations import Seconds, to_nanos
from ._io.tokens import is_token
from ._io.types import check_type, wrong_type
from .address import DEFAULT, Address, Scheme
from .errors import ConfigError

_logger = logging.getLogger("pausewatch")

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ._stopwatch.link import Link

    Interceptor: TypeAlias = grpc.UnaryUnaryClientInterceptor | grpc.StreamStreamClientInterceptor | grpc.aio.ClientInterceptor

DEADLINE: Seconds = 5.0
"""The default deadline of a call, retries included, in seconds."""

THREAD_VARIABLES = ("PAUSEWATCH_THREAD_ID", "CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID")
"""The variables that name the thread; the first that is not empty is used."""

_KEYS = ("address", "thread_id", "token", "tls_ca", "tls_cert", "tls_key")
# The server's section of the file, which clients ignore.
_SERVER = "serve"
_CONFIG_VARIABLE = "PAUSEWATCH_CONFIG"


@dataclass(frozen=True, slots=True)
class Tls:
    """The settings of a TLS connection: the paths of PEM files, or their contents."""

    ca: Path | bytes | None = None
    """The certificate authorities to trust; None: the default ones of gRPC."""
    cert: Path | bytes | None = None
    """The client certificate, for a server that requires one."""
    key: Path | bytes | None = field(default=None, repr=False)
    """The private key of the client certificate, not encrypted."""

    def __post_init__(self) -> None:
        for name in ("ca", "cert", "key"):
            check_type(name, getattr(self, name), (Path, bytes, NoneType), "a pathlib.Path, or the PEM text as bytes")


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A token source: reads the token from a file each time, and strips white space around it."""

    path: Path
    """The file."""

    def __call__(self) -> str:
        """The current token. Raises OSError, or ValueError if the file has no token."""
        token = self.path.read_bytes().strip().decode("ascii", "replace")
        if not is_token(token):
            raise ValueError(f"the file {self.path} is empty, or has other characters than visible ASCII")
        return token


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of a client: how it connects, and the deadline of its calls.

    Raises ConfigError: the settings contradict each other. TypeError: one has another type, such as a str as address.
    """

    address: Address = field(default_factory=lambda: Address.parse(DEFAULT))
    """The address of the coordinator."""
    thread_id: str | None = None
    """The default thread of calls."""
    token: str | None = field(default=None, repr=False)
    """The token, sent with every call as `authorization: Bearer`; visible ASCII."""
    tls: Tls = field(default_factory=Tls)
    """The TLS settings; only with an https address."""
    deadline: Seconds = DEADLINE
    """The deadline of a call, retries included: a number of seconds or a timedelta, above 0."""
    retries: int | None = None
    """The maximum number of retries of a call within its deadline; None: no maximum. With 0, a missing coordinator is reported at
    once."""
    token_source: Callable[[], str] | None = field(default=None, repr=False)
    """A function that returns the token, for a token that is replaced before it expires; instead of `token`. It is called for
    every call, and again while a watch is open (at least once a minute); the stream then continues with the new token. It must
    return at once, and be thread-safe. If it raises, the call raises `Unauthenticated`."""
    credentials: grpc.ChannelCredentials | None = None
    """The channel credentials, instead of `tls`; only with an https address."""
    interceptors: Sequence[Interceptor] = ()
    """Interceptors of every call and every stream: those of `grpc` for a `Client`, of `grpc.aio` for an `AsyncClient`."""
    channel: grpc.Channel | grpc.aio.Channel | None = None
    """Your own channel instead of `address`, `tls`, `credentials` and `interceptors`: a `grpc.Channel` for a `Client`, a
    `grpc.aio.Channel` for an `AsyncClient`. It is not closed with the client. Its own options decide how it pings and
    reconnects."""
    on_link: Callable[[Link], object] | None = None
    """Called when the stopwatches and timeouts of the client are connected, are disconnected, or have been disconnected for the
    whole disconnect grace: on the client's thread for callbacks, or on the event loop. Keep it short."""

    def __post_init__(self) -> None:
        check_type("address", self.address, Address, "an Address: Address.parse(…), or Config.load(address=…)")
        check_type("thread_id", self.thread_id, (str, NoneType), "a str")
        check_type("token", self.token, (str, NoneType), "a str")
        check_type("tls", self.tls, Tls, "a Tls")
        if self.credentials is not None:
            check_type("credentials", self.credentials, grpc.ChannelCredentials, "a grpc.ChannelCredentials")
        if isinstance(self.interceptors, str) or not isinstance(self.interceptors, Iterable):
            raise wrong_type("interceptors", self.interceptors, "a sequence of interceptors")
        for name in ("token_source", "on_link"):
            if (given := getattr(self, name)) is not None and not callable(given):
                raise wrong_type(name, given, "a function")
        _check_deadline(self.deadline)
        _check_retries(self.retries)
        _check_tls(self.address, self.tls)
        _check_transport(self)
        if self.token is not None and self.token_source is not None:
            raise ConfigError("a token and a token source (or PAUSEWATCH_TOKEN_FILE) are set: set one of them")
        _check_token(self.address, self.token, self.token_source)

    @classmethod
    def load(
        cls,
        *,
        address: str | None = None,
        thread_id: str | None = None,
        token: str | None = None,
        token_source: Callable[[], str] | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        deadline: Seconds = DEADLINE,
        retries: int | None = None,
        config_file: str | os.PathLike[str] | None = None,
        environ: Mapping[str, str] | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        interceptors: Sequence[Interceptor] = (),
        channel: grpc.Channel | grpc.aio.Channel | None = None,
        on_link: Callable[[Link], object] | None = None,
    ) -> Config:
        """Reads the arguments, then the environment (`PAUSEWATCH_ADDRESS` and so on), then the config file.

        Without `PAUSEWATCH_THREAD_ID`, the thread is that of the agent that started this program: `CODEX_THREAD_ID`, then
        `CLAUDE_CODE_SESSION_ID`.

        `config_file`: by default `PAUSEWATCH_CONFIG`, else `$XDG_CONFIG_HOME/pausewatch/config.toml`, else
        `~/.config/pausewatch/config.toml`. `environ`: by default `os.environ`.

        Raises ConfigError: a setting is not valid, or the settings contradict each other; the text says which.
        """
        environ = os.environ if environ is None else environ
        given = (address, thread_id, token, tls_ca, tls_cert, tls_key)
        arguments = {key: os.fspath(value) for key, value in zip(_KEYS, given, strict=True) if value is not None}
        variables = {key: value for key in _KEYS if (value := _variable(key, environ))}
        if token_file := environ.get("PAUSEWATCH_TOKEN_FILE"):
            variables["token_file"] = token_file
        # A given source overrides the token of the environment and the file.
        given_source = {} if token_source is None else {"token_file": ""}
        chosen = _merged(_merged(arguments | given_source, variables), _file(config_file, environ))
        source = token_source or (TokenFile(Path(chosen["token_file"])) if chosen.get("token_file") else None)
        tls = Tls(**{key: Path(chosen[f"tls_{key}"]) for key in ("ca", "cert", "key") if f"tls_{key}" in chosen})
        parsed = Address.parse(chosen.get("address", DEFAULT))
        return cls(
            parsed,
            chosen.get("thread_id"),
            chosen.get("token"),
            tls,
            deadline,
            retries,
            source,
            credentials=credentials,
            interceptors=interceptors,
            channel=channel,
            on_link=on_link,
        )


def _variable(key: str, environ: Mapping[str, str]) -> str | None:
    """The value of the environment; an empty one counts as not set."""
    names = THREAD_VARIABLES if key == "thread_id" else (f"PAUSEWATCH_{key.upper()}",)
    return next((value for name in names if (value := environ.get(name))), None)


def _merged(upper: dict[str, str], lower: dict[str, str]) -> dict[str, str]:
    """Merges two layers: the settings of `upper` override those of `lower`."""
    is_plain = "address" in upper and not _is_encrypted(upper)
    if is_plain and (_is_encrypted(lower) or any(f"tls_{file}" in lower for file in ("ca", "cert", "key"))):
        lower = {key: value for key, value in lower.items() if key == "thread_id"}
    if "token" in upper or "token_file" in upper:
        lower = {key: value for key, value in lower.items() if key not in ("token", "token_file")}
    return lower | upper


def _is_encrypted(settings: dict[str, str]) -> bool:
    return settings.get("address", "").startswith("https://")


def _file(named: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> dict[str, str]:
    """The settings of the config file."""
    named = named or environ.get(_CONFIG_VARIABLE) or None
    path = Path(named) if named is not None else _default_path(environ)
    if path is None:
        return {}
    try:
        # Editors of Windows write a byte order mark, which the program accepts too.
        settings = tomllib.loads(path.read_text("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError) as error:  # A HOME of /dev/null is no directory.
        if named is None:
            return {}
        raise ConfigError(f"config file {path}: {error.strerror}") from None
    except (OSError, ValueError) as error:
        if named is None and isinstance(error, PermissionError) and _is_of_another_user(path.parent.parent):
            _logger.warning(
                "config file %s is ignored: %s, and %s belongs to another user; correct HOME or XDG_CONFIG_HOME",
                path,
                error.strerror,
                path.parent.parent,
            )
            return {}
        raise ConfigError(f"config file {path}: {error}") from None
    settings.pop(_SERVER, None)
    for key, value in settings.items():
        if key not in _KEYS:
            raise ConfigError(f"config file {path}: unknown key {key!r}; known: {', '.join(_KEYS)}")
        if not isinstance(value, str):
            raise ConfigError(f"config file {path}: {key} must be a string")
    return {key: value for key, value in settings.items() if value}


def _default_path(environ: Mapping[str, str]) -> Path | None:
    # The XDG base directory specification says that a relative path must be ignored.
    configured = environ.get("XDG_CONFIG_HOME", "")
    if Path(configured).is_absolute():
        return Path(configured, "pausewatch", "config.toml")
    home = environ.get("HOME")
    return Path(home, ".config", "pausewatch", "config.toml") if home else None


def _is_of_another_user(directory: Path) -> bool:
    """The first of these that can be seen decides: the directory, or one above it; some may be hidden or missing."""
    if sys.platform == "win32":
        return False
    for place in (directory, *directory.parents):
        try:
            return place.stat().st_uid != os.geteuid()
        except OSError:
            continue
    return True


def _check_deadline(deadline: Seconds) -> None:
    try:
        positive = to_nanos(deadline) > 0
    except (TypeError, ValueError):
        positive = False
    if not positive:
        raise ConfigError(f"deadline {deadline!r}: must be a number of seconds or a timedelta, above 0")


def _check_retries(retries: int | None) -> None:
    try:
        valid = retries is None or retries >= 0
    except TypeError:
        valid = False
    if not valid:
        raise ConfigError(f"retries {retries!r}: must be 0 or more, or None")


def _check_tls(address: Address, tls: Tls) -> None:
    if (tls.cert is None) != (tls.key is None):
        given, missing = ("tls_cert", "tls_key") if tls.key is None else ("tls_key", "tls_cert")
        raise ConfigError(f"{given} is set and {missing} is not: set both")
    if tls != Tls() and address.scheme is not Scheme.TLS:
        given = "tls_ca" if tls.ca else "tls_cert"
        raise ConfigError(f"{given} is set, and the address {address} is plain text: write https://host:port, or unset it")


def _check_transport(config: Config) -> None:
    if config.credentials is not None:
        if config.tls != Tls():
            raise ConfigError("credentials and TLS files are set: set one of them")
        if config.address.scheme is not Scheme.TLS:
            raise ConfigError(f"credentials are set, and the address {config.address} is plain text: write https://host:port")
    if config.channel is not None and (config.credentials is not None or config.interceptors):
        raise ConfigError("a channel has its own credentials and interceptors: set either the channel or these")


def _check_token(address: Address, token: str | None, source: Callable[[], str] | None) -> None:
    if token is None and source is None:
        return
    if token is not None and not is_token(token):
        raise ConfigError("the token is empty or has other characters than visible ASCII")
    if address.scheme is not Scheme.TLS and not address.is_local():
        raise ConfigError(
            f"a token is set, and the address {address} is plain text: it could be read on the way; "
            "write https://host:port, or connect over loopback or a Unix socket"
        )
