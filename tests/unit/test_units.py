"""Rates, times and sizes in human notation become exact integers, or an error that names the field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmrc import units
from openmrc.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [
        ("250Mbit", 250_000_000),
        ("10G", 10_000_000_000),
        ("1.5 Gbps", 1_500_000_000),
        ("0", 0),
        (0, 0),
        ("800Gbit/s", 800 * 10**9),
        ("64kbit", 64_000),
        ("1bit", 1),
    ],
)
def test_rates(text: str | int, rate_bps: int) -> None:
    assert units.parse_rate(text) == rate_bps


@pytest.mark.parametrize(
    ("text", "time_ps"),
    [("3s", 3 * 10**12), ("50ms", 50 * 10**9), ("100us", 10**8), ("0.1 us", 10**5), ("1µs", 10**6), ("7ps", 7)],
)
def test_times(text: str, time_ps: int) -> None:
    assert units.parse_time(text) == time_ps


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("4096", 4096), (4096, 4096), ("64KiB", 65536), ("64Ki", 65536), ("1MB", 10**6), ("1GiB", 2**30), ("9kB", 9000)],
)
def test_sizes(text: str | int, size_bytes: int) -> None:
    assert units.parse_bytes(text) == size_bytes


@pytest.mark.parametrize(("text", "fraction"), [("1%", 0.01), ("0.5", 0.005), (100, 1.0), ("0 %", 0.0)])
def test_percentages(text: str | int, fraction: float) -> None:
    assert units.parse_percent(text) == pytest.approx(fraction)


@pytest.mark.parametrize("text", ["fast", "-1G", "10", "10Q", "", "1e9bit", "1..5G", True, None, "0.5bit", "nanG"])
def test_a_wrong_rate_is_an_error_that_names_the_field(text: object) -> None:
    with pytest.raises(ConfigError) as caught:
        units.parse_rate(text, "links.rate")
    assert caught.value.field == "links.rate"
    assert caught.value.value == text
    assert "250Mbit" in str(caught.value)


def test_a_missing_unit_is_named() -> None:
    with pytest.raises(ConfigError, match="a unit is missing"):
        units.parse_time("20")


def test_a_close_unit_is_suggested() -> None:
    with pytest.raises(ConfigError, match="did you mean 'Mbit"):
        units.parse_rate("250Mbits")


@pytest.mark.parametrize("text", ["101%", "-1", "1 in 10", True])
def test_a_wrong_percentage_is_an_error(text: object) -> None:
    with pytest.raises(ConfigError, match="0 to 100"):
        units.parse_percent(text)


def test_less_than_a_nanosecond_is_no_time_in_nanoseconds() -> None:
    assert units.parse_time_ns("5us") == 5000
    with pytest.raises(ConfigError, match="whole number of nanoseconds"):
        units.parse_time_ns("500ps")


@given(st.integers(0, 10**15))
def test_formatted_values_read_back_within_three_decimals(rate_bps: int) -> None:
    back = units.parse_rate(units.format_rate(rate_bps).replace(",", "").replace(" ", ""))
    assert abs(back - rate_bps) * 1000 <= max(rate_bps, 1)


def test_formats() -> None:
    assert units.format_rate(1_500_000_000) == "1.5 Gb/s"
    assert units.format_rate(0) == "0 b/s"
    assert units.format_time(50 * 10**9) == "50 ms"
    assert units.format_time(1_234_567) == "1.235 us"
    assert units.format_bytes(65536) == "64 KiB"
