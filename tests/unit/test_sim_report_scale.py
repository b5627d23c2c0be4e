"""Axes of reports reach from nanoseconds to the goodput of the largest fabrics."""

from __future__ import annotations

import pytest

from openmrc.charts.svg import ticks


@pytest.mark.parametrize("maximum", [1e-9, 3.0, 4e11, 7.1e12, 1e17, 1e21])
def test_an_axis_has_a_handful_of_marks_whatever_its_scale(maximum: float) -> None:
    marks = ticks(maximum)
    assert 1 <= len(marks) <= 5
    assert 0.4 * maximum < marks[-1] <= maximum * (1 + 1e-9)
