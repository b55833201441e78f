"""The addresses that every program and library of pausewatch reads."""

from __future__ import annotations

import pytest
from support.vectors import ADDRESSES

from pausewatch import Address, AddressError


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ("127.0.0.1:7420", "127.0.0.1:7420"),
        ("localhost:1", "localhost:1"),
        ("[::1]:7420", "[::1]:7420"),
        ("http://example.com:65535", "example.com:65535"),
        ("http://example.com/", "example.com:80"),
        ("http://[::1]:7420/", "[::1]:7420"),
        ("https://example.com", "https://example.com:443"),
        ("https://[::1]:7420/", "https://[::1]:7420"),
        ("unix:/run/p.sock", "unix:/run/p.sock"),
        ("unix:///run/p.sock", "unix:/run/p.sock"),
        ("unix:p.sock", "unix:p.sock"),
    ],
)
def test_every_form_is_parsed_and_printed_in_its_short_form(given: str, printed: str) -> None:
    address = Address.parse(given)
    assert str(address) == printed
    assert Address.parse(printed) == address


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", "the host is missing"),
        (":7420", "the host is missing"),
        ("localhost", "the port is missing; write host:port, for example 127.0.0.1:7420"),
        ("[::1]", "the port is missing"),
        ("::1:7420", ""),
        ("fe80::1:7420", "brackets"),
        ("[nonsense]:1", ""),
        ("[1:2]:1", "the brackets must contain an IPv6 address without a zone"),
        ("host:0", "the port is not a number from 1 to 65535"),
        ("host:65536", "the port is not a number"),
        ("host:", "the port is not a number"),
        ("host:٣", "the port is not a number"),
        ("http://", "the host is missing"),
        ("http://host:7420/path", "only a host and a port are allowed"),
        ("user@host:7420", "only a host and a port"),
        ("a host:1", ""),
        ("ftp://host:21", 'the scheme "ftp" is unknown; write host:port, http://host:port, https://host:port or unix:PATH'),
        ("unix:", "the path is missing"),
        ("unix:/a\0b", "the path must not contain a NUL"),
        ("unix://host/p.sock", "unix:// must be followed by an absolute path"),
    ],
)
def test_an_invalid_address_is_quoted_with_the_cause(given: str, why: str) -> None:
    with pytest.raises(AddressError) as error:
        Address.parse(given)
    assert why in str(error.value)
    if given.isprintable():
        assert f'"{given}"' in str(error.value)


@pytest.mark.parametrize("given", ADDRESSES["addresses_taken"])
def test_addresses_that_every_language_accepts_are_accepted(given: str) -> None:
    assert str(Address.parse(given)) == given.removeprefix("http://")


@pytest.mark.parametrize("given", ADDRESSES["addresses_refused"])
def test_addresses_that_every_language_refuses_are_refused(given: str) -> None:
    with pytest.raises(AddressError):
        Address.parse(given)


@pytest.mark.parametrize("local", ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "LocalHost:1", "unix:/run/p.sock"])
def test_loopback_and_unix_sockets_are_local(local: str) -> None:
    assert Address.parse(local).is_local()


@pytest.mark.parametrize("remote", ["10.0.0.1:1", "0.0.0.0:1", "[fe80::1]:1", "[::ffff:127.0.0.1]:1", "localhost.example.com:1"])
def test_all_other_addresses_are_not_local(remote: str) -> None:
    assert not Address.parse(remote).is_local()
