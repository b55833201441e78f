"""Checks of the types of arguments whose mistakes would otherwise be reported far from their place, or never."""

from __future__ import annotations


def check_type(name: str, given: object, types: type | tuple[type, ...], allowed: str) -> None:
    """Raises TypeError if it has none of the types. Does not print the value, which may be secret."""
    if not isinstance(given, types):
        raise wrong_type(name, given, allowed)


def wrong_type(name: str, given: object, allowed: str) -> TypeError:
    """The error of an argument that has another type than allowed."""
    return TypeError(f"{name} has the type {type(given).__name__}; allowed: {allowed}")
