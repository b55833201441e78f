"""Which coordinator, and how: an argument wins over the environment, that over the config file.

1. A variable that is set and empty counts as not set, and so does an empty address in the file. The thread's variables are
   `THREAD_VARIABLES`: its own first, then those that agents set for their commands.
2. A config file that was named must be there; the one in its usual place may be missing. An unknown key is refused by
   name: a typing error must not quietly mean the default.
3. A token or a certificate is never quietly left unused, and a token never crosses a network in plain text.
4. A token is in no repr, error or log.
5. What is for TLS stays there: an address in plain text that goes over settings for TLS (an https address, or files) has
   nothing of theirs but the thread. They are another coordinator's.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ._io.durations import Seconds, to_nanos
from ._io.tokens import is_token
from .address import DEFAULT, Address, Scheme
from .errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import grpc
    import grpc.aio

    from ._stopwatch.link import Link

    Interceptor: TypeAlias = grpc.UnaryUnaryClientInterceptor | grpc.StreamStreamClientInterceptor | grpc.aio.ClientInterceptor

DEADLINE: Seconds = 5.0
"""How long a call may take, retries included by default."""

THREAD_VARIABLES = ("PAUSEWATCH_THREAD_ID", "CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID")
"""Where the environment names the thread; the first that is set and not empty counts."""

_KEYS = ("address", "thread_id", "token", "tls_ca", "tls_cert", "tls_key")
# The server's part of the file, which is not ours to judge.
_SERVER = "serve"
_CONFIG_VARIABLE = "PAUSEWATCH_CONFIG"


@dataclass(frozen=True, slots=True)
class Tls:
    """What a TLS connection needs besides the usual authorities: the paths of PEM files, or their contents."""

    ca: Path | bytes | None = None
    """The authorities to trust; None: those of gRPC."""
    cert: Path | bytes | None = None
    """This client's certificate, for a server that asks for one."""
    key: Path | bytes | None = field(default=None, repr=False)
    """The key of that certificate, not encrypted."""


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A token source: the token in a file, which is read each time; white space around it does not count."""

    path: Path
    """The file."""

    def __call__(self) -> str:
        """The token as it is now. Raises OSError, or ValueError for what is no ASCII."""
        return self.path.read_text("ascii").strip()


@dataclass(frozen=True, slots=True)
class Config:
    """How a client connects and how long it is patient.

    Raises ConfigError when the parts do not fit together.
    """

    address: Address = field(default_factory=lambda: Address.parse(DEFAULT))
    """Where the coordinator listens."""
    thread_id: str | None = None
    """The thread to work on where a call names none."""
    token: str | None = field(default=None, repr=False)
    """Sent with every call as `authorization: Bearer`; visible ASCII."""
    tls: Tls = field(default_factory=Tls)
    """For TLS; only with an https address."""
    deadline: Seconds = DEADLINE
    """How long a call may take, retries included: a number of seconds or a timedelta, above 0."""
    retries: int | None = None
    """How often a call is repeated at most, within its deadline; None: as often as fits. 0 reports at once that no coordinator
    runs."""
    token_source: Callable[[], str] | None = field(default=None, repr=False)
    """Gives the token instead, for one that ends and is replaced before. It is asked for every call, and again while a watch is
    open (at least once a minute), whose stream then goes on with the new token. It must answer at once; what it raises ends a
    call as `Unauthenticated`. Any thread may call it."""
    credentials: grpc.ChannelCredentials | None = None
    """Instead of `tls`, only with an https address."""
    interceptors: Sequence[Interceptor] = ()
    """Around every call and every stream: interceptors of `grpc` for a `Client`, of `grpc.aio` for an `AsyncClient`."""
    channel: grpc.Channel | grpc.aio.Channel | None = None
    """A channel of your own instead of `address`, `tls`, `credentials` and `interceptors`: a `grpc.Channel` for a `Client`, a
    `grpc.aio.Channel` for an `AsyncClient`. It is not closed with the client. How it pings and reconnects is yours to say."""
    on_link: Callable[[Link], object] | None = None
    """Called when the stopwatches and timeouts of the client are connected, cut off, or have been for the whole disconnect grace:
    on the client's thread for callbacks, or on the event loop. Keep it short."""

    def __post_init__(self) -> None:
        _check_deadline(self.deadline)
        if self.retries is not None and self.retries < 0:
            raise ConfigError(f"retries {self.retries}: must be 0 or more, or None")
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
        """Looks at the arguments, then the environment (`PAUSEWATCH_ADDRESS` and so on), then the config file.

        Without `PAUSEWATCH_THREAD_ID`, the environment's thread is that of the agent that started this program:
        `CODEX_THREAD_ID`, then `CLAUDE_CODE_SESSION_ID`.

        `config_file`: that of `PAUSEWATCH_CONFIG`, else `$XDG_CONFIG_HOME/pausewatch/config.toml`, else
        `~/.config/pausewatch/config.toml`. `environ`: `os.environ`.

        Raises ConfigError: a part is wrong, or the parts do not fit together; the text says which.
        """
        environ = os.environ if environ is None else environ
        given = (address, thread_id, token, tls_ca, tls_cert, tls_key)
        arguments = {key: os.fspath(value) for key, value in zip(_KEYS, given, strict=True) if value is not None}
        variables = {key: value for key in _KEYS if (value := _variable(key, environ))}
        if token_file := environ.get("PAUSEWATCH_TOKEN_FILE"):
            variables["token_file"] = token_file
        # An empty argument only hides what the environment has.
        given_source = {} if token_source is None else {"token_file": ""}
        chosen = _over(_over(arguments | given_source, variables), _file(config_file, environ))
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
    """What the environment says; empty counts as not set."""
    names = THREAD_VARIABLES if key == "thread_id" else (f"PAUSEWATCH_{key.upper()}",)
    return next((value for name in names if (value := environ.get(name))), None)


def _over(upper: dict[str, str], lower: dict[str, str]) -> dict[str, str]:
    """Each setting of `upper`, or if it has none, that of `lower`."""
    is_plain = "address" in upper and not _is_encrypted(upper)
    if is_plain and (_is_encrypted(lower) or any(f"tls_{file}" in lower for file in ("ca", "cert", "key"))):
        lower = {key: value for key, value in lower.items() if key == "thread_id"}
    if "token" in upper or "token_file" in upper:
        lower = {key: value for key, value in lower.items() if key not in ("token", "token_file")}
    return lower | upper


def _is_encrypted(settings: dict[str, str]) -> bool:
    return settings.get("address", "").startswith("https://")


def _file(named: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> dict[str, str]:
    """What the config file says."""
    named = named or environ.get(_CONFIG_VARIABLE) or None
    path = Path(named) if named is not None else _usual_place(environ)
    if path is None:
        return {}
    try:
        settings = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        if named is None:
            return {}
        raise ConfigError(f"config file {path}: {error.strerror}") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"config file {path}: {error}") from None
    settings.pop(_SERVER, None)
    for key, value in settings.items():
        if key not in _KEYS:
            raise ConfigError(f"config file {path}: unknown key {key!r}; known: {', '.join(_KEYS)}")
        if not isinstance(value, str):
            raise ConfigError(f"config file {path}: {key} must be a string")
    return {key: value for key, value in settings.items() if value}


def _usual_place(environ: Mapping[str, str]) -> Path | None:
    # The XDG base directory specification: a relative path is to be ignored.
    configured = environ.get("XDG_CONFIG_HOME", "")
    if Path(configured).is_absolute():
        return Path(configured, "pausewatch", "config.toml")
    home = environ.get("HOME")
    return Path(home, ".config", "pausewatch", "config.toml") if home else None


def _check_deadline(deadline: Seconds) -> None:
    try:
        positive = to_nanos(deadline) > 0
    except ValueError:
        positive = False
    if not positive:
        raise ConfigError(f"deadline {deadline}: must be above 0")


def _check_tls(address: Address, tls: Tls) -> None:
    if (tls.cert is None) != (tls.key is None):
        given, missing = ("tls_cert", "tls_key") if tls.key is None else ("tls_key", "tls_cert")
        raise ConfigError(f"{given} is set and {missing} is not: a certificate is of use only with its key; set both")
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
