"""Sizes and looks against published numbers and against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmrc.errors import ConfigError
from openmrc.evals.interim import bounds_of, plan_looks, stops, student_bound
from openmrc.evals.sizing import (
    SAMPLES_MIN,
    Noise,
    PowerError,
    design_effect,
    measured_noise,
    power_of,
    required_samples,
    size_comparison,
)
from openmrc.evals.trial_profile import Profile, Trial

variances = st.floats(0.001, 1.0)
effects = st.floats(0.01, 0.5)
levels = st.sampled_from([0.01, 0.05, 0.1])


def test_the_example_of_miller_needs_969_samples():
    assert required_samples(Noise(between=1 / 9, within=0), 0.03, 0.05, 0.8, 1) == 969


@given(variances, variances, effects, levels, st.floats(0.5, 0.99), st.integers(1, 20))
def test_the_samples_needed_have_the_power_and_fewer_do_not(between, within, effect, level, power, epochs):
    noise = Noise(between, within)
    samples = required_samples(noise, effect, level, power, epochs)
    assert power_of(noise, samples, epochs, effect, level) >= power - 1e-9
    if samples > SAMPLES_MIN:
        # The other side of the test adds less than 1e-3 at these powers.
        assert power_of(noise, samples - 1, epochs, effect, level) < power + 1e-3


@given(variances, variances, effects, st.integers(SAMPLES_MIN, 5000))
def test_a_size_keeps_its_promise_or_is_refused(between, within, effect, samples):
    noise = Noise(between, within)
    promised = {"effect": effect, "level": 0.05, "power": 0.8, "samples": samples}
    if power_of(noise, samples, 64, effect, 0.05) < 0.799:
        with pytest.raises(PowerError, match="not 80%"):
            size_comparison(noise, **promised)
    elif power_of(noise, samples, 64, effect, 0.05) > 0.801:
        size = size_comparison(noise, **promised)
        assert size.power >= 0.8 - 1e-9
        assert size.smallest_effect <= effect * (1 + 1e-9)


def test_epochs_cannot_replace_samples_that_differ():
    with pytest.raises(PowerError, match="no number of epochs reaches it"):
        size_comparison(Noise(0.1, 0.01), effect=0.02, level=0.05, power=0.8, samples=100)


def test_a_handful_of_samples_is_promised_no_power():
    with pytest.raises(PowerError, match="below 30"):
        size_comparison(Noise(0.0, 0.001), effect=0.5, level=0.05, power=0.8, samples=SAMPLES_MIN - 1)


def test_clusters_that_move_together_raise_the_variance():
    values = {("t", f"{cluster}.{n}"): float(cluster % 2) for cluster in range(10) for n in range(5)}
    clusters = {key: key[1].partition(".")[0] for key in values}
    assert design_effect(values, clusters) == pytest.approx(5 * 10 / 9)
    assert design_effect(values, {key: key for key in values}) == 1.0


def drawn(rates: np.ndarray, epochs: int, seed: int) -> Profile:
    rng = np.random.default_rng(seed)
    return Profile(
        Trial(task="t", sample=f"{at}", epoch=epoch + 1, score=float(rng.random() < rate))
        for at, rate in enumerate(rates)
        for epoch in range(epochs)
    )


def test_variances_of_drawn_runs_are_found():
    rng = np.random.default_rng(5)
    first = rng.uniform(0, 1, 4000)
    second = np.clip(first + rng.normal(0.05, 0.1, 4000), 0, 1)
    noise = measured_noise(drawn(first, 4, 1), drawn(second, 4, 2))
    assert noise.between == pytest.approx(float((second - first).var()), abs=0.004)
    assert noise.within == pytest.approx(float((first * (1 - first) + second * (1 - second)).mean()), rel=0.03)
    alone = measured_noise(drawn(first, 4, 1), None, correlation=0.5)
    assert alone.between == pytest.approx(float(first.var()), rel=0.06)


def test_pilots_that_show_too_little_are_refused():
    with pytest.raises(ConfigError, match="at least two epochs"):
        measured_noise(drawn(np.full(40, 0.5), 1, 1), None)
    with pytest.raises(ConfigError, match="at least 20 samples"):
        measured_noise(drawn(np.full(10, 0.5), 3, 1), None)


def test_bounds_are_the_published_ones():
    """Lan-DeMets, O'Brien-Fleming-like, five looks, two-sided 5 %: 4.877, 3.357, 2.680, 2.290, 2.031."""
    assert bounds_of(0.05, [0.2, 0.4, 0.6, 0.8, 1.0]) == pytest.approx((4.877, 3.357, 2.680, 2.290, 2.031), abs=0.003)
    assert bounds_of(0.05, [1.0]) == pytest.approx((1.960,), abs=0.002)


@given(st.lists(st.floats(0.05, 0.97), min_size=1, max_size=5, unique=True), levels)
def test_bounds_are_crossed_by_chance_as_often_as_the_level_says(parts, level):
    information = [*sorted(parts), 1.0]
    if min(np.diff(information)) < 0.02:
        return
    bounds = bounds_of(level, information)
    rng = np.random.default_rng(3)
    steps = np.diff(information, prepend=0.0)
    z = np.cumsum(rng.standard_normal((40_000, len(steps))) * np.sqrt(steps), axis=1) / np.sqrt(information)
    share = float((np.abs(z) >= np.array(bounds)).any(axis=1).mean())
    assert share == pytest.approx(level, abs=5 * np.sqrt(level / 40_000) + 0.001)


def test_quantiles_of_students_t_are_the_tabulated_ones():
    assert student_bound(1.959964, 10) == pytest.approx(2.228, abs=0.002)
    assert student_bound(1.959964, 79) == pytest.approx(1.9905, abs=0.0005)


def test_looks_save_trials_and_cost_little_power():
    size = size_comparison(Noise(0.02, 0.3), effect=0.05, level=0.05, power=0.8, epochs=5)
    looks = plan_looks(size, 5)
    assert looks.epochs == (1, 2, 3, 4, 5)
    assert 0.2 < looks.saved_null < 0.6
    assert 0.1 < looks.saved_effect < 0.6
    assert size.power - 0.08 < looks.power <= size.power + 0.01


def test_a_comparison_stops_at_a_bound_or_for_futility():
    information, bounds = [0.25, 0.5, 0.75, 1.0], [4.3, 3.0, 2.4, 2.0]
    assert stops([4.5, 0, 0, 0], information, bounds) == (0, True)
    assert stops([0.0, 2.0, 2.2, 2.1], information, bounds) == (3, True)
    assert stops([0.0, 0.1, 3.0, 3.0], information, bounds) == (1, False)
    assert stops([0.0, 1.5, 1.8, 1.9], information, bounds) == (3, False)
