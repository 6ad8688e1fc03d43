"""Grids of set-ups, and comparisons that run them now."""

from __future__ import annotations

import json
import os
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

from . import _native
from ._table import Table

Many = Union[None, str, int, Iterable[Any]]

_AXES = (
    "index", "chip", "workload", "trace", "ops", "record", "ram", "durability", "sync_every", "ftl", "seed",
)


def _listed(value: Any) -> List[Any]:
    if isinstance(value, (str, bytes, int, float)) or not isinstance(value, Iterable):
        return [value]
    return list(value)


def outcomes_table(outcomes: Sequence[str]) -> Table:
    """The table of outcomes in JSON."""
    rows = [json.loads(row) for row in _native.rows(list(outcomes))]
    return Table(rows, _native.columns(list(outcomes)))


class Grid:
    """Lists of what set-ups have: one cell for each combination, each once.

    Iterating gives the cells as dictionaries; ``len`` counts them.
    """

    def __init__(self, json_text: str) -> None:
        self._json = json_text
        self._cells = _native.grid_cells(json_text)

    @classmethod
    def load(cls, path: Union[str, os.PathLike[str]]) -> Grid:
        """The grid in a TOML file, as ``nandex sweep`` reads it."""
        return cls(_native.load_grid(os.fspath(path)))

    def requests(self) -> List[str]:
        """The cells in JSON, as the program and every worker read them."""
        return list(self._cells)

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (json.loads(cell) for cell in self._cells)

    def __repr__(self) -> str:
        return f"<Grid: {len(self)} cells>"


def grid(
    index: Many,
    *,
    chip: Many = None,
    workload: Many = None,
    trace: Many = None,
    ops: Many = None,
    record: Many = None,
    ram: Many = None,
    durability: Many = None,
    sync_every: Many = None,
    ftl: Many = None,
    seed: Many = None,
    options: Optional[Mapping[str, Any]] = None,
    skip: Optional[Sequence[Mapping[str, Any]]] = None,
) -> Grid:
    """Every combination of these values; each is one value or several.

    index       names (``nandex.indexes()``), or "all"
    chip        parts (``nandex.chips()``) or chip files; "mlc-64m" when left out
    workload    generators (``nandex.workloads()``)
    trace       trace files or bundled traces; "kernel_compile" where there is no workload either
    ops         operations of the measured part
    record      bytes of key and value such as "8/8"; "4/4" when left out
    ram         bytes, or text such as "64KiB", tables included; no cache when left out
    durability  "every-operation" (when left out), "every-sync", "none"
    sync_every  a sync after so many changes
    ftl         FTLs (``nandex.ftls()``) for the indexes that stand on one
    seed        seeds of the workload, such as ``range(1, 11)``; 1 when left out
    options     of workloads and indexes: ``{"records": 20000, "cache": ["lru", "cflru"]}``
    skip        combinations left out: ``[{"index": "vmtree", "ram": "64KiB"}]``
    """
    given = locals()
    axes: dict[str, Any] = {name: _listed(given[name]) for name in _AXES if given[name] is not None}
    if options:
        axes["options"] = {name: _listed(value) for name, value in options.items()}
    if skip:
        axes["skip"] = [dict(combination) for combination in skip]
    return Grid(json.dumps(axes))


def compare(index: Many = "all", *, threads: Optional[int] = None, **axes: Any) -> Table:
    """Measures every combination now, on as many threads as there are cores, and gives a row for each.

    Takes what ``grid`` takes. A row has ``status``: "done"; "refused" where the index cannot run so, for
    want of RAM or on this chip, with the reason in ``error``; "failed".

        >>> import nandex
        >>> table = nandex.compare(index="mu", workload="uniform", options={"records": 500, "operations": 100})
        >>> table[0]["status"], table[0]["operations"]
        ('done', 100)
    """
    return outcomes_table(_native.run_cells(grid(index, **axes).requests(), threads))


def details(index: str, **request: Any) -> dict[str, Any]:
    """All that one set-up measures: phases, costs by kind of operation and by cause, wear of each block.

    Takes what ``grid`` takes, one value each. The dictionary is what ``nandex compare --json`` writes.
    """
    cells = grid(index, **request).requests()
    if len(cells) != 1:
        raise _native.RequestError(f"these are {len(cells)} set-ups; give one value of each")
    return json.loads(_native.details(cells[0]))


def advise(
    chip: str = "mlc-64m",
    *,
    want: str = "time",
    ram: Union[None, int] = None,
    rate: Optional[float] = None,
    **request: Any,
) -> dict[str, Any]:
    """Searches for the index to take on this chip, as ``nandex advise`` does.

    want     what is to be small: "time", "energy", "space", "tail", "boot"; or long: "lifetime"
    ram      bytes, tables included; 65536 when left out
    rate     operations a second, for the years that the chip lives; 1 when left out
    request  ``workload`` or ``trace``, ``ops``, ``record``, ``durability``, ``sync_every``, ``seeds``,
             ``options`` of the workload, ``threads``

    ``answer`` of the dictionary is the index to take with its options and figures, None where nothing can
    run; ``others`` are the runners-up, ``refused`` what cannot run and why, ``config`` the text of a ``nandex.toml``.
    """
    asked = {"chip": chip, "want": want, "ram": ram, "rate": rate, **request}
    if "options" in asked:
        asked["options"] = {name: str(value) for name, value in asked["options"].items()}
    return json.loads(_native.advise(json.dumps({k: v for k, v in asked.items() if v is not None})))
