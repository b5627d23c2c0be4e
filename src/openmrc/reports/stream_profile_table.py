"""A profile for the terminal: stages as bars, beside those of TCP."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from openmrc.charts.style import MRC_COLOUR, RC_COLOUR
from openmrc.runs.processes.device_counters import counter_lines
from openmrc.runs.profile.account import Line
from openmrc.runs.profile.stages import Side
from openmrc.runs.profile.stream_profile import Profile, StreamProfile

__all__ = ["COLOURS", "SIDE_NAMES", "profile_table", "short_name", "summary_lines"]

COLOURS = {Side.KERNEL: RC_COLOUR, Side.OPENMRC: MRC_COLOUR, Side.REST: "#94a3b8"}
SIDE_NAMES = {Side.KERNEL: "kernel", Side.OPENMRC: "openmrc", Side.REST: "rest"}
_BAR_CELLS = 16
_EIGHTHS = " ▏▎▍▌▋▊▉"
_FIGURES = 82  # columns of all but the functions
_FUNCTIONS_MIN = 30  # minimum width for functions to be useful


def summary_lines(profile: Profile) -> list[str]:
    """Source of the shares, and total cost of each stream."""
    first = profile.streams[0]
    if profile.reason is None:
        source = f"perf: {first.account.samples:,} samples of {first.event}, {first.scope}"
    else:
        source = f"no samples by perf: {profile.reason}; shares are the kernel's account of threads"
    lines = [source]
    for one in profile.streams:
        other_s = one.account.other_cpu_s
        other = "" if other_s is None else f", other programs {_number(one.per_gb(other_s))}"
        processes, machine = _number(one.cpu_seconds_per_gb), _number(one.machine_cpu_seconds_per_gb)
        seconds = f"processes {processes}, machine {machine}{other}"
        lines.append(f"{one.transport.upper()}: {one.goodput_gbps:.2f} Gb/s; CPU s/GB: {seconds}")
    lines += [f"{name}: {value} ({parts})" for name, value, parts in counter_lines(profile.result["counters"])]
    return lines


def profile_table(profile: Profile, width: int) -> Table:
    """Stages in the order of the data path; with TCP a column beside them.

    Args:
        profile: The profile.
        width: Columns of the terminal: functions are shown if they fit.
    """
    first, *others = profile.streams
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("", style="dim", no_wrap=True)
    table.add_column("stage", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    for one in profile.streams:
        table.add_column(f"{one.transport.upper()} s/GB", justify="right", no_wrap=True)
    room = width - _FIGURES
    if room >= _FUNCTIONS_MIN:
        table.add_column("most of it in", style="dim", overflow="ellipsis", no_wrap=True, max_width=room)
    most_s = max((line.total_cpu_s for line in first.account.lines), default=0.0)
    side: Side | None = None
    for line in first.account.lines:
        cells = [Text("" if line.side is side else SIDE_NAMES[line.side]), Text(line.title), _bar(line, most_s)]
        cells.append(Text(f"{first.account.share(line):.0%}"))
        cells += [Text(_of_line(one, line.key)) for one in (first, *others)]
        if room >= _FUNCTIONS_MIN:
            cells.append(Text(", ".join(short_name(name) for name, _ in line.functions[:3])))
        table.add_row(*cells)
        side = line.side
    sums = [Text(_number(one.per_gb(one.account.total_cpu_s))) for one in profile.streams]
    table.add_row(Text(""), Text("all stages", style="bold"), Text(""), Text("100%"), *sums)
    return table


def short_name(function: str) -> str:
    """A function without the common namespaces."""
    return function.replace("(anonymous namespace)::", "").replace("openmrc::", "")


def _of_line(stream: StreamProfile, key: str) -> str:
    found = next((line for line in stream.account.lines if line.key == key), None)
    return "–" if found is None else _number(stream.per_gb(found.total_cpu_s))


def _bar(line: Line, most_s: float) -> Text:
    eighths = round(line.total_cpu_s / most_s * _BAR_CELLS * 8) if most_s else 0
    whole, part = divmod(eighths, 8)
    return Text("█" * whole + (_EIGHTHS[part] if part else ""), style=COLOURS[line.side])


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
