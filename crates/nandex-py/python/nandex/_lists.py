"""What there is by name."""

from __future__ import annotations

import json

from . import _native
from ._table import Table


def _list(what: str) -> Table:
    return Table(json.loads(_native.list_of(what)))


def indexes() -> Table:
    """Every index with a summary and its options (name, default, help)."""
    return _list("indexes")


def ftls() -> Table:
    """Every FTL with a summary and its options."""
    return _list("ftls")


def workloads() -> Table:
    """Every generator of operations with a summary and its options."""
    return _list("workloads")


def chips() -> Table:
    """Every part of the catalogue with its numbers: bytes, nanoseconds, erases."""
    return _list("chips")


def experiments() -> Table:
    """Every experiment of a paper."""
    return _list("experiments")
