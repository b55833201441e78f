"""The address of a coordinator, as one string.

`host:port`, `http://host[:port]`, `https://host[:port]`, `unix:PATH` (also `unix:///PATH`). The host is a name of ASCII
letters, digits, `-`, `_` and `.`, an IPv4 address, or an IPv6 address in brackets, without a zone. Several replicas: their
addresses, separated by commas. clients/vectors/addresses.json lists what every language accepts and refuses. An address that is
printed and parsed again is equal. Only https uses TLS: nothing falls back to plain text.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from enum import Enum
from typing import Self

from ._io.types import check_type
from .errors import ConfigError

DEFAULT = "127.0.0.1:7420"
"""The default address of a coordinator."""

_MAX_ADDRESSES = 16
"""The maximum number of addresses: far above any useful number of replicas."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|[A-Za-z0-9._-]+")
_PORT = re.compile(r"[1-9][0-9]{0,4}")


class AddressError(ConfigError):
    """A string is not a valid address. The text quotes it, and says what is wrong and what to write."""


class Scheme(Enum):
    """How the client connects to a coordinator."""

    PLAIN = "http"
    TLS = "https"
    UNIX = "unix"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a coordinator. Made by `Address.parse`; `str` returns its short form."""

    scheme: Scheme
    """Plain text over TCP, TLS over TCP, or a Unix socket."""
    target: str
    """`host:port`, several of them separated by commas, or the path of a Unix socket; a relative path starts at the working
    directory."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses an address.

        Raises AddressError.
        """
        check_type("address", text, str, "a str")
        if text.startswith("unix:"):
            return cls(Scheme.UNIX, _path(text))
        if "," in text:
            return cls._parse_list(text)
        scheme, separator, rest = text.partition("://")
        if not separator:
            return cls(Scheme.PLAIN, _authority(text, text, None))
        if scheme not in _DEFAULT_PORTS:
            raise _malformed(text, f'the scheme "{scheme}" is unknown')
        return cls(Scheme(scheme), _authority(text, rest.removesuffix("/"), _DEFAULT_PORTS[scheme]))

    @classmethod
    def _parse_list(cls, text: str) -> Self:
        entries = text.split(",")
        if len(entries) > _MAX_ADDRESSES:
            raise _malformed(text, f"it has {len(entries)} addresses; allowed: up to {_MAX_ADDRESSES}")
        found: list[Self] = []
        for entry in entries:
            if not entry:
                raise _malformed(text, "an entry of the list is empty")
            if entry.startswith("unix:"):
                raise _malformed(text, "a list has no unix: address")
            try:
                address = cls.parse(entry)
            except AddressError as error:
                raise _malformed(text, f"entry {error}") from None
            if address in found:
                raise _malformed(text, f"{address} is named twice")
            found.append(address)
        if any(address.scheme is not found[0].scheme for address in found):
            raise _malformed(text, "either all addresses of a list begin with https://, or none")
        return cls(found[0].scheme, ",".join(address.target for address in found))

    @property
    def each(self) -> tuple[Self, ...]:
        """The address of each replica; the address itself if there is one."""
        if self.scheme is Scheme.UNIX:
            return (self,)
        return tuple(type(self)(self.scheme, target) for target in self.target.split(","))

    def is_local(self) -> bool:
        """Whether the connection cannot be intercepted: a Unix socket, `localhost` or a loopback address."""
        if self.scheme is Scheme.UNIX:
            return True
        if "," in self.target:
            return all(address.is_local() for address in self.each)
        host = self.target.rpartition(":")[0].strip("[]")
        if host.lower() == "localhost":
            return True
        try:
            ip = ipaddress.ip_address(host)
        except ValueError:
            return False
        # Since Python 3.13, an IPv4-mapped IPv6 address may count as loopback; no other client treats it so.
        return ip.is_loopback and getattr(ip, "ipv4_mapped", None) is None

    def __str__(self) -> str:
        match self.scheme:
            case Scheme.PLAIN:
                return self.target
            case Scheme.TLS:
                return ",".join(f"https://{target}" for target in self.target.split(","))
            case Scheme.UNIX:
                return f"unix:{self.target}"


def _path(text: str) -> str:
    path = text.removeprefix("unix:")
    if path.startswith("//"):
        # unix:///PATH has an empty host, like file:///PATH; unix://HOST/PATH would mean another machine.
        path = path.removeprefix("//")
        if not path.startswith("/"):
            raise _malformed(text, "unix:// must be followed by an absolute path")
    if not path:
        raise _malformed(text, "the path is missing")
    if "\0" in path:
        raise _malformed(text, "the path must not contain a NUL")
    return path


def _authority(text: str, bare: str, default_port: int | None) -> str:
    if not bare:
        raise _malformed(text, "the host is missing")
    if any(sign in bare for sign in "/?#@"):
        raise _malformed(text, "only a host and a port are allowed")
    host = _HOST.match(bare)
    if host is None:
        raise _malformed(text, "the host is missing" if bare.startswith(":") else "the host cannot be read")
    if host["ipv6"] is not None:
        _check_ipv6(text, host["ipv6"])
    after = bare[host.end() :]
    if not after:
        if default_port is None:
            raise AddressError(f"address {_quoted(text)}: the port is missing; write host:port, for example {DEFAULT}")
        return f"{host[0]}:{default_port}"
    port = after.removeprefix(":")
    if not after.startswith(":") or ":" in port:
        raise _malformed(text, "the host cannot be read; an IPv6 address needs brackets")
    if not _PORT.fullmatch(port) or int(port) > 65_535:
        raise _malformed(text, "the port is not a number from 1 to 65535")
    return f"{host[0]}:{port}"


def _check_ipv6(text: str, host: str) -> None:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        raise _malformed(text, "the brackets must contain an IPv6 address without a zone") from None


def _malformed(text: str, problem: str) -> AddressError:
    return AddressError(f"address {_quoted(text)}: {problem}; write host:port, http://host:port, https://host:port or unix:PATH")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if escaped.isprintable() else repr(text)
