"""Sweeps: every cell of a grid once, kept in a folder, over whatever runs them."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Callable, List, Optional, Union

from . import _backends, _native
from ._cells import Grid, outcomes_table
from ._table import Table

Progress = Union[bool, Callable[["State"], None]]

#: Seconds between two lines about the progress where no terminal shows one that changes.
_TELL_EVERY_S = 10.0


class State:
    """How far a sweep is: ``done`` of ``total`` cells that had to run, ``failed`` of them."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.failed = 0
        self._started = self._told = time.monotonic()

    @property
    def left_s(self) -> float:
        """Seconds that the rest will take, about."""
        return (time.monotonic() - self._started) / max(self.done, 1) * (self.total - self.done)

    def __str__(self) -> str:
        return f"{self.done} of {self.total} cells, {self.failed} failed, about {self.left_s:.0f} s left"


class SweepResult(Table):
    """The table of a sweep: a row for each cell, whether it ran now or was kept."""

    def __init__(self, outcomes: List[str], kept: int, ran: int) -> None:
        table = outcomes_table(outcomes)
        super().__init__(list(table), table.columns)
        #: Cells that were in the folder already.
        self.kept = kept
        #: Cells that ran now.
        self.ran = ran

    def failed(self) -> Table:
        """The cells that failed, with why in ``error``; ``run(retry=True)`` runs them again."""
        return Table([row for row in self if row["status"] == "failed"], self.columns)


class Sweep:
    """A grid and the folder that keeps its cells. The same folder serves ``nandex sweep``."""

    def __init__(self, grid: Grid, store: Union[str, os.PathLike[str]]) -> None:
        self.grid = grid
        self.store = os.fspath(store)

    def run(
        self,
        backend: str = "local",
        *,
        address: Any = None,
        workers: Optional[int] = None,
        retries: int = 3,
        retry: bool = False,
        timeout_s: Optional[float] = None,
        progress: Progress = False,
    ) -> SweepResult:
        """Runs every cell that the folder has not, and gives the table of all.

        backend    "local": processes of this machine; "dask"; "ray"
        address    of a cluster, or a ``distributed.Client``; one of this machine when left out
        workers    processes on this machine; as many as there are cores when left out
        retries    more tries of a cell whose worker died
        retry      runs again what failed before
        timeout_s  seconds after which a cell's worker is ended ("local" only)
        progress   True tells on stderr; a function gets a ``State`` after each cell

        Called again it goes on where it was: a cell is kept as soon as it is done. Workers of a cluster find
        chip files and traces under the same names as here; only this process writes to the folder. With
        "dask" and no address the calling script has to be guarded by ``if __name__ == "__main__":``.
        """
        runner = _backends.find(backend, address, workers)
        requests = self.grid.requests()
        outcomes: dict[str, str] = {}
        for request in requests:
            found = _native.store_find(self.store, request)
            if found is not None and not (retry and json.loads(found)["status"] == "failed"):
                outcomes[_name(request)] = found
        missing = [request for request in requests if _name(request) not in outcomes]
        state = State(len(missing))

        def done(outcome: str) -> None:
            _native.store_put(self.store, outcome)
            read = json.loads(outcome)
            outcomes[_name(json.dumps(read["request"]))] = outcome
            state.done += 1
            state.failed += read["status"] == "failed"
            _tell(progress, state)

        if missing:
            runner.run(missing, done, retries, timeout_s)
        kept = len(requests) - len(missing)
        return SweepResult([outcomes[_name(request)] for request in requests], kept, len(missing))


def _name(request: str) -> str:
    """A request whose text does not depend on who wrote it."""
    return json.dumps(json.loads(request), sort_keys=True)


def _tell(progress: Progress, state: State) -> None:
    if callable(progress):
        progress(state)
    elif progress:
        is_last, now = state.done == state.total, time.monotonic()
        if sys.stderr.isatty():
            sys.stderr.write(f"{state}   " + ("\n" if is_last else "\r"))
        elif is_last or now - state._told >= _TELL_EVERY_S:
            sys.stderr.write(f"{state}\n")
            state._told = now
        sys.stderr.flush()


def sweep(grid: Union[Grid, str, os.PathLike[str]], store: Union[str, os.PathLike[str]]) -> Sweep:
    """A sweep of a grid, or of one in a TOML file, whose cells are kept in the folder ``store``.

        result = nandex.sweep(nandex.grid(index=["mu", "bplus"], seed=range(1, 11)), "kept").run()
        result.to_pandas().groupby("index").flash_time_per_operation_ns.mean()
    """
    return Sweep(grid if isinstance(grid, Grid) else Grid.load(grid), store)
