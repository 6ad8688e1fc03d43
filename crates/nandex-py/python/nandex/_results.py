"""Experiments: files that say what runs."""

from __future__ import annotations

import json
import os
from typing import Any, List, Mapping, Optional, Union

from . import _native
from ._table import Table


class Experiment:
    """What an experiment measured."""

    def __init__(self, results: dict[str, Any]) -> None:
        self.results = results

    def __repr__(self) -> str:
        return f"<Experiment {self.results['definition']['name']}: {len(self.results['cells'])} cells>"

    def table(self) -> Table:
        """A row for each figure of each cell, over the seeds: mean, min, max and ``ci95``, the half-width of
        Student's 95 % interval. ``stand_in`` names what ran in place of an input that is not at hand."""
        rows: List[dict[str, Any]] = []
        for cell in self.results["cells"]:
            names = {name: cell[name] for name in ("input", "variant", "contender", "index")}
            stand_in = cell.get("stand_in") or cell.get("substitute")
            for figure, summary in cell["figures"].items():
                rows.append({"cell": cell["name"], **names, "figure": figure, **summary, "stand_in": stand_in})
        return Table(rows)

    def pairs(self) -> Table:
        """Contenders against the baseline, seed by seed: the difference in percent with its interval."""
        rows: List[dict[str, Any]] = []
        for pair in self.results.get("pairs", []):
            plain = {name: value for name, value in pair.items() if not isinstance(value, dict)}
            difference = pair["difference_percent"]
            plain.update({f"difference_percent_{name}": value for name, value in difference.items()})
            rows.append(plain)
        return Table(rows)

    def failures(self) -> List[str]:
        """Runs that stopped early and cells that could not run, each in a sentence."""
        told: List[str] = []
        for cell in self.results["cells"]:
            told += [f"{cell['name']}: {run['error']}" for run in cell["runs"] if run.get("error")]
            if cell.get("missing"):
                told.append(f"{cell['name']}: {cell['missing']}")
        return told


def run(
    experiment: Union[str, os.PathLike[str]],
    *,
    set: Optional[Mapping[str, Any]] = None,
    seeds: Optional[int] = None,
    smoke: bool = False,
    threads: Optional[int] = None,
    data: Union[None, str, os.PathLike[str]] = None,
    out: Union[None, str, os.PathLike[str]] = None,
) -> Experiment:
    """Runs an experiment: a TOML file, a folder with an ``experiment.toml``, or the name of one of a paper.

    set      values in place of what the file says: ``{"chip": "w25n01gv", "records": 5000}``
    seeds    seeds of generated workloads; what the file says when left out
    smoke    the small size that only shows that everything works
    data     the folder of full traces
    out      a folder for all files of results
    """
    sets = [(name, _text(value)) for name, value in (set or {}).items()]
    path = os.fspath(experiment)
    found = _native.run_experiment(
        path, sets, smoke=smoke, seeds=seeds, threads=threads, data=data, out=out
    )
    return Experiment(json.loads(found))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
