"""Ordered indexes for flash memory, measured on a simulated chip and used like a dictionary.

    >>> import nandex
    >>> table = nandex.compare(index=["mu", "bplus"], workload="uniform",
    ...                        options={"records": 2000, "operations": 500})
    >>> sorted(row["index"] for row in table)
    ['bplus', 'mu']

``compare`` measures set-ups now, ``sweep`` thousands of them into a folder, on this machine or a cluster,
``run`` an experiment file, ``open`` gives an index itself. Every name of a figure ends in its unit.
"""

from ._cells import Grid, advise, compare, details, grid
from ._index import Index, open
from ._lists import chips, experiments, ftls, indexes, workloads
from ._native import FullError, InUseError, NandexError, PowerLost, RequestError, StorageError, commit, version
from ._results import Experiment, run
from ._sweep import Sweep, SweepResult, sweep
from ._table import Table

__version__ = version()

__all__ = [
    "Experiment",
    "FullError",
    "Grid",
    "InUseError",
    "Index",
    "NandexError",
    "PowerLost",
    "RequestError",
    "StorageError",
    "Sweep",
    "SweepResult",
    "Table",
    "advise",
    "chips",
    "commit",
    "compare",
    "details",
    "experiments",
    "ftls",
    "grid",
    "indexes",
    "open",
    "run",
    "sweep",
    "version",
    "workloads",
]
