"""A table of a result: named NumPy columns of one length, convertible to Arrow and Polars, stored as Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from openmrc.errors import OpenmrcError

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

__all__ = ["Table"]

Column = npt.NDArray[Any]
_Columns = TypeVar("_Columns", bound=Mapping[str, Any])


class Table(Mapping[str, Column], Generic[_Columns]):
    """Columns by name; read only. Those of each table of a result are a class of `openmrc.sim.result_schema`.

    Args:
        columns: Arrays of one length. In integer columns of times, -1 means that the event has not happened.
    """

    def __init__(self, columns: _Columns) -> None:
        self._columns = {name: np.asarray(column) for name, column in columns.items()}
        lengths = {len(column) for column in self._columns.values()}
        assert len(lengths) <= 1, f"columns differ in length: {sorted(lengths)}"
        for column in self._columns.values():
            column.flags.writeable = False

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self._columns.values()), ()))

    def numpy(self) -> _Columns:
        """The columns as NumPy arrays, without a copy."""
        return cast("_Columns", dict(self._columns))

    def polars(self) -> pl.DataFrame:
        """The table as a Polars data frame.

        Raises:
            OpenmrcError: Polars is not installed.
        """
        try:
            import polars as pl
        except ModuleNotFoundError as error:
            raise _missing(error) from None
        return pl.DataFrame(self._columns)

    def arrow(self) -> pa.Table:
        """The table as an Arrow table.

        Raises:
            OpenmrcError: PyArrow is not installed.
        """
        try:
            import pyarrow as pa
        except ModuleNotFoundError as error:
            raise _missing(error) from None
        return pa.table(dict(self._columns))

    def write_parquet(self, path: Path) -> None:
        """Writes the table to a file for `read_parquet`.

        Raises:
            OpenmrcError: Polars is not installed.
        """
        self.polars().write_parquet(path)

    @staticmethod
    def read_parquet(path: Path) -> Table[Any]:
        """The table of a file.

        Raises:
            OpenmrcError: Polars is not installed, or the file is not a table.
        """
        try:
            import polars as pl
        except ModuleNotFoundError as error:
            raise _missing(error) from None
        try:
            frame = pl.read_parquet(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise OpenmrcError(f"{path} is not a readable table: {error}") from None
        return Table({name: frame[name].to_numpy() for name in frame.columns})


def _missing(error: ModuleNotFoundError) -> OpenmrcError:
    return OpenmrcError(f"tables of results need {error.name}; install it with: pip install 'openmrc[sim]'")
