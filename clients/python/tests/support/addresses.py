"""The addresses and tokens that every language takes or refuses alike."""

from __future__ import annotations

from pathlib import Path

_FILE = Path(__file__).parents[3] / "scenarios" / "addresses.txt"


def cases(expected: str) -> list[str]:
    """The values of which this is expected: `accept`, `refuse`, `token-accept` or `token-refuse`."""
    lines = [line.partition(" ") for line in _FILE.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    unknown = {kind for kind, _, _ in lines} - {"accept", "refuse", "token-accept", "token-refuse"}
    assert not unknown, f"{_FILE}: {unknown}"
    return [value for kind, _, value in lines if kind == expected]
