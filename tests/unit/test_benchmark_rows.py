"""Benchmark rows: medians, targets, and a JSON form that can be read back."""

from __future__ import annotations

import json

import pytest

from openmrc.reports.benchmark_tables import number, rows_table
from openmrc.runs.bench.rows import Report, Row, reaches, row


def test_a_row_is_the_median_with_its_spread():
    one = row("plain", "goodput", [3.0, 1.0, 2.0, 5.0, 4.0], "Gb/s", ">= 2.5")
    assert (one.value, one.min, one.max, one.repeats, one.met) == (3.0, 1.0, 5.0, 5, True)
    assert row("plain", "goodput", [1.0], "Gb/s", ">= 2.5").met is False
    assert row("plain", "goodput", [1.0], "Gb/s").met is None


def test_a_run_without_a_value_fails_the_target():
    assert row("plain", "stall", [10.0, None, 20.0], "ms", "<= 50").met is False
    assert row("plain", "stall", [None], "ms", "<= 50").value is None


@pytest.mark.parametrize(
    ("value", "target", "expected"),
    [(50, "<= 50", True), (50.1, "<= 50", False), (0.97, ">= 0.97", True), (1, "> 1", False), (0, "== 0", True)],
)
def test_targets_compare_as_they_read(value, target, expected):
    assert reaches(value, target) is expected


def test_a_target_that_is_no_comparison_is_our_mistake():
    with pytest.raises(ValueError, match="not a comparison"):
        reaches(1, "fast")


def test_a_written_report_can_be_read_back(tmp_path):
    report = Report()
    report.add([row("case", "metric", [1.0, 2.0, 3.0], "unit", "<= 5")])
    path = tmp_path / "report.json"
    report.write(path)
    document = json.loads(path.read_text())
    assert set(document) == {"machine", "commit", "rows"}
    assert set(document["rows"][0]) == {"case", "metric", "value", "unit", "target", "met", "repeats", "min", "max"}
    again = Report.read(path)
    assert again.rows == report.rows
    assert again.commit == report.commit


def test_something_else_is_not_a_report(tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"rows": [{"case": 1}]}')
    with pytest.raises(ValueError, match=r"other\.json: not a benchmark report"):
        Report.read(path)


def test_the_table_has_a_line_per_row():
    table = rows_table([Row("a", "m", 1.0, "x"), Row("a", "n", None, "x", ">= 1", False, 5)])
    assert table.row_count == 2


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0, "0"), (0.5, "0.500"), (12.345, "12.3"), (12345, "12,345")]
)
def test_numbers_show_about_three_digits(value, text):
    assert number(value) == text
