"""Run directories: a result as files.

NAME/summary.json            what names the run, and the figures of every transport
NAME/settings.yaml           every setting with its value
NAME/TRANSPORT/*.parquet     flows, series_*, drops, path_events
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from openmrc.errors import ConfigError
from openmrc.sim.result_schema import RunSummary
from openmrc.sim.tables import Table

__all__ = ["StoredRun", "check_free", "commit_of_code", "load_run", "save_run", "settings_text"]

SUMMARY, SETTINGS = "summary.json", "settings.yaml"


class StoredRun(NamedTuple):
    """Contents of a run directory."""

    summary: RunSummary
    """All figures; see `Result.summary`."""
    settings: Any
    tables: Mapping[str, Mapping[str, Table[Any]]]
    """By transport, then by name."""


def save_run(run: StoredRun, folder: Path) -> Path:
    """Writes a run directory and returns its path; see `Result.save`."""
    check_free(folder)
    _clear(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for transport, tables in run.tables.items():
        place = folder / transport
        place.mkdir()
        for name, table in tables.items():
            table.write_parquet(place / f"{name}.parquet")
    (folder / SETTINGS).write_text(settings_text(run.settings), encoding="utf-8")
    # Written last, so that a folder with a summary is a complete run.
    (folder / SUMMARY).write_text(json.dumps(run.summary, indent=1) + "\n", encoding="utf-8")
    return folder


def check_free(folder: Path) -> None:
    """Checks that a run may be written there.

    Raises:
        ConfigError: the folder contains something other than a run.
    """
    if folder.exists() and not (folder / SUMMARY).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError("run directory", str(folder), "an empty folder, a new one, or an earlier run")


def _clear(folder: Path) -> None:
    """Removes the tables of an earlier run, and nothing else."""
    summary = folder / SUMMARY
    if not summary.is_file():
        return
    for name in _read_summary(folder)["transports"]:
        shutil.rmtree(folder / name, ignore_errors=True)
    summary.unlink()


def load_run(folder: Path) -> StoredRun:
    """The run in a directory; see `Result.load`."""
    summary = _read_summary(folder)
    settings = YAML(typ="safe").load((folder / SETTINGS).read_text(encoding="utf-8"))
    tables = {
        transport: {path.stem: Table.read_parquet(path) for path in sorted((folder / transport).glob("*.parquet"))}
        for transport in summary["transports"]
    }
    return StoredRun(summary, settings, tables)


def _read_summary(folder: Path) -> RunSummary:
    try:
        summary: RunSummary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        summary["transports"].items()
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        raise ConfigError("run directory", str(folder), f"a folder with the {SUMMARY} of a run") from None
    return summary


def settings_text(settings: Any) -> str:
    """Settings as YAML."""
    out = StringIO()
    yaml = YAML(typ="safe")
    yaml.default_flow_style = False
    yaml.dump(json.loads(json.dumps(settings)), out)
    return out.getvalue()


@cache
def commit_of_code() -> str:
    """The commit of the checkout in use, with `+` if modified; else the version of the package."""
    here = Path(__file__).resolve().parent
    git = ["git", "-C", str(here)]
    try:
        tracked = subprocess.run([*git, "ls-files", "--error-unmatch", __file__], capture_output=True, check=False)
        commit = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
        if tracked.returncode or commit.returncode:
            return f"version {version('openmrc')}"
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD"], capture_output=True, check=False).returncode
    except OSError:
        return f"version {version('openmrc')}"
    return commit.stdout.strip() + ("+" if changed else "")
