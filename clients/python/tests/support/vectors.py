"""The vectors of all languages, from `clients/vectors`; its README says what they mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[3] / "vectors"
Json = dict[str, Any]


def cases(file: str) -> list[Any]:
    """Its cases, as parameters that are named like them."""
    content = json.loads((FOLDER / file).read_text("utf-8"))
    only(content, "about", "cases")
    assert content["cases"], file
    return [pytest.param(case, id=case["name"]) for case in content["cases"]]


def only(of: Json, *known: str) -> None:
    """A key that nobody looks at would test nothing."""
    unknown = of.keys() - set(known)
    assert not unknown, f"{unknown} in {of}"


def nanos(milliseconds: float) -> int:
    return round(milliseconds * 1_000_000)


def _addresses() -> dict[str, list[str]]:
    lists: dict[str, list[str]] = json.loads((FOLDER / "addresses.json").read_text("utf-8"))
    only(lists, "about", "addresses_taken", "addresses_refused", "tokens_taken", "tokens_refused")
    return lists


ADDRESSES = _addresses()
"""Its lists."""
