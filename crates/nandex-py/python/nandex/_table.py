"""Rows of figures, and what other libraries make of them."""

from __future__ import annotations

import csv
import html
import importlib
from collections.abc import Sequence
from typing import Any, Iterator, List, Optional, Union, overload


def _library(name: str, wanted: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{wanted} needs {name}: pip install {name}") from error


class Table(Sequence):
    """A list of rows, each a dictionary with a value for every column; None is not known.

    Names of figures end in their units: ``flash_time_ns`` is nanoseconds of the chip, ``energy_nj``
    nanojoules, ``ram_bytes`` bytes.
    """

    def __init__(self, rows: Sequence[dict[str, Any]], columns: Optional[Sequence[str]] = None) -> None:
        self._rows = list(rows)
        names = dict.fromkeys(name for row in self._rows for name in row)
        self._columns = list(columns) if columns is not None else list(names)

    @property
    def columns(self) -> List[str]:
        """The names of the columns, in order."""
        return list(self._columns)

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> Table: ...
    @overload
    def __getitem__(self, at: str) -> List[Any]: ...

    def __getitem__(self, at: Union[int, slice, str]) -> Union[dict[str, Any], Table, List[Any]]:
        """A row by its place, a part by a slice, a column by its name."""
        if isinstance(at, str):
            if at not in self._columns:
                raise KeyError(at)
            return [row.get(at) for row in self._rows]
        if isinstance(at, slice):
            return Table(self._rows[at], self._columns)
        return self._rows[at]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} rows, {len(self._columns)} columns>"

    def _repr_html_(self) -> str:
        told = [name for name in self._columns if any(row.get(name) is not None for row in self._rows)]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in told)
        cell = lambda row, name: html.escape("" if row.get(name) is None else str(row[name]))
        rows = "".join(
            "<tr>" + "".join(f"<td>{cell(row, name)}</td>" for name in told) + "</tr>" for row in self._rows[:60]
        )
        more = f"<p>{len(self)} rows</p>" if len(self) > 60 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"

    def to_dict(self) -> dict[str, List[Any]]:
        """A list of values for each column."""
        return {name: self[name] for name in self._columns}

    def to_csv(self, path: str) -> None:
        """Writes a CSV file; what is not known is empty."""
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, self._columns, restval="", extrasaction="ignore")
            writer.writeheader()
            writer.writerows({name: "" if value is None else value for name, value in row.items()} for row in self)

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table``; ``pyarrow.parquet.write_table`` makes a Parquet file of it."""
        arrow = _library("pyarrow", "to_arrow")
        return arrow.table(self.to_dict())

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame``; ``to_parquet`` makes a Parquet file of it."""
        pandas = _library("pandas", "to_pandas")
        return pandas.DataFrame(self._rows, columns=self._columns)

    def to_polars(self) -> Any:
        """A ``polars.DataFrame``; ``write_parquet`` makes a Parquet file of it."""
        polars = _library("polars", "to_polars")
        return polars.DataFrame(self.to_dict(), strict=False)
