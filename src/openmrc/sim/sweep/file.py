"""Reading of sweep files. Problems are named with file and line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationError

from openmrc.config.file_problems import FileProblemsError
from openmrc.config.section import KeyPath, Section
from openmrc.config.yaml_document import Document, read_text, read_yaml
from openmrc.errors import ConfigError
from openmrc.sim.sweep.sweep import Plot, Sweep
from openmrc.sim.sweep.values import expand_values

__all__ = ["SweepFileError", "load_sweep"]

_EXAMPLE = "scenario: permutation.yaml"


class SweepFileError(FileProblemsError):
    """Problems of a sweep file."""


def _parameters(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not value:
        raise ConfigError(
            "parameters", value, "paths into the scenario with their values, such as fabric.planes: [1, 8]"
        )
    return {str(path): values for path, values in value.items()}


def _seeds(value: Any) -> list[int]:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return list(range(1, value + 1))
    words = "how many (3 means 1, 2, 3), a list of whole numbers, or {from, to, step}"
    if isinstance(value, bool | int | str | None):
        raise ConfigError("seeds", value, words)
    seeds = expand_values(value, "seeds")
    if not all(type(seed) is int and 0 <= seed < 2**63 for seed in seeds):
        raise ConfigError("seeds", value, words)
    return seeds


class PlotSection(Section):
    x: str
    y: str
    lines: str | None = None


class SweepFile(Section):
    """A sweep file in the user's notation."""

    sweep: str | None = None
    scenario: str | dict[str, Any]
    parameters: Annotated[dict[str, Any], BeforeValidator(_parameters)]
    seeds: Annotated[tuple[int, ...], BeforeValidator(_seeds)] = (1,)
    transports: tuple[str, ...] | None = None
    plots: tuple[PlotSection, ...] = ()


def load_sweep(path: str | Path, out: str | Path | None = None) -> Sweep:
    """The sweep that a YAML file describes.

    Args:
        path: The sweep file; names of files in it are relative to its folder.
        out: Folder of the results; None: `NAME.sweep` in the working directory.

    Raises:
        SweepFileError: with every problem of the file, each with its line.
        ConfigError: a parameter that leads nowhere in the scenario, or a problem of the scenario file.
    """
    path = Path(path)
    document = read_yaml(read_text(path, "sweep file", SweepFileError), path, "sweep file", _EXAMPLE, SweepFileError)
    try:
        file = SweepFile.model_validate(dict(document.values))
    except ValidationError as error:
        raise SweepFileError(document.problems(error, SweepFile)) from None
    name = file.sweep or path.stem
    scenario = path.parent / file.scenario if isinstance(file.scenario, str) else file.scenario
    try:
        return Sweep(
            scenario,
            file.parameters,
            seeds=file.seeds,
            transports=file.transports,
            name=name,
            out=Path(out) if out is not None else Path(f"{name}.sweep"),
            folder=None if isinstance(scenario, Path) else path.parent,
            plots=tuple(Plot(plot.x, plot.y, plot.lines) for plot in file.plots),
        )
    except FileProblemsError:
        raise
    except ConfigError as error:
        raise _placed(error, document) from None


def _placed(error: ConfigError, document: Document) -> ConfigError:
    """The error with the line of the value in the sweep file."""
    section, *rest = error.field.split(".")
    places: list[KeyPath] = [(section, ".".join(rest[:depth])) for depth in range(len(rest), 0, -1)]
    places += [(section, str(error.value)), (section,)]
    place = next((place for place in places if place in document.lines), ())
    return SweepFileError(
        [
            ConfigError(
                error.field,
                error.value,
                error.allowed,
                source=document.source,
                line=document.lines.get(place),
                hint=error.hint,
            )
        ]
    )
