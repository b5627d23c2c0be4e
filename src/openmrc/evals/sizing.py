"""Samples and epochs that a paired comparison of two systems needs.

The score of a sample is its mean over epochs, the result the mean difference over samples. With `w` the variance of the
true differences, `s` the summed variances of both systems' scores within a sample, K epochs, n samples, and the design
effect `d` of clustered samples, the variance of the result is `d (w + s / K) / n` (Miller 2024, arXiv 2411.00640; the
design effect is Kish's, Survey Sampling, 1965). The number of samples for an effect at a level and a power follows:
`n = d (z_level + z_power)^2 (w + s / K) / effect^2`. Epochs lower `s / K` only: below
`d (z_level + z_power)^2 w / effect^2` samples no number of epochs reaches the power.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from openmrc.errors import ConfigError, OpenmrcError
from openmrc.evals.trial_profile import Profile

__all__ = ["Noise", "PowerError", "Size", "measured_noise", "required_samples", "size_comparison"]

NORMAL = NormalDist()
SAMPLES_MIN = 30  # makes the mean of bounded differences sufficiently normal
PILOT_MIN = 20  # below, a pilot's variances are too uncertain for any conclusion
EPOCHS_MAX = 64


class PowerError(OpenmrcError):
    """No plan with these samples can have the requested power."""


@dataclass(frozen=True)
class Noise:
    """Variances of a comparison.

    Args:
        between: Of the true difference of the two systems over samples.
        within: Of the score of a trial about its sample's mean, both systems summed up.
        design_effect: Factor by which clusters of related samples raise the variance of the result.
    """

    between: float
    within: float
    design_effect: float = 1.0

    def variance(self, epochs: float) -> float:
        """Variance of the result, times the number of samples."""
        return self.design_effect * (self.between + self.within / epochs)


@dataclass(frozen=True)
class Size:
    """A comparison of this many samples and epochs, at a level and a power.

    Args:
        needed: Samples needed for the power, for each number of epochs.
        smallest_effect: Effect that samples and epochs detect with the power.
    """

    samples: int
    epochs: int
    effect: float
    level: float
    power_wanted: float
    power: float
    smallest_effect: float
    needed: Mapping[int, int]
    noise: Noise

    @property
    def trials(self) -> int:
        """Trials of one system."""
        return self.samples * self.epochs


def _quantiles(level: float, power: float) -> float:
    return NORMAL.inv_cdf(1 - level / 2) + NORMAL.inv_cdf(power)


def required_samples(noise: Noise, effect: float, level: float, power: float, epochs: float) -> int:
    """Samples that detect an effect with a power, in a two-sided test at a level."""
    return max(SAMPLES_MIN, math.ceil(noise.variance(epochs) * _quantiles(level, power) ** 2 / effect**2 - 1e-9))


def power_of(noise: Noise, samples: int, epochs: int, effect: float, level: float) -> float:
    """Probability that the test sees an effect."""
    error = math.sqrt(noise.variance(epochs) / samples)
    bound = NORMAL.inv_cdf(1 - level / 2)
    if error == 0:
        return 1.0
    return NORMAL.cdf(effect / error - bound) + NORMAL.cdf(-effect / error - bound)


def size_comparison(
    noise: Noise, *, effect: float, level: float, power: float, samples: int | None = None, epochs: int | None = None
) -> Size:
    """The smallest comparison with this power; `samples` and `epochs` fix the given numbers.

    Without `epochs`, the number with the fewest trials for the available samples is chosen.

    Raises:
        PowerError: these samples and epochs, or any number of epochs, do not reach the power.
    """
    if samples is not None and samples < SAMPLES_MIN:
        raise PowerError(f"{samples} samples: below {SAMPLES_MIN} the normal approximation promises no power")
    tried = [epochs] if epochs else list(range(1, EPOCHS_MAX + 1))
    fitting = [one for one in tried if samples is None or required_samples(noise, effect, level, power, one) <= samples]
    if not fitting:
        assert samples is not None
        raise PowerError(_refusal(noise, effect, level, power, samples, epochs))
    chosen = min(fitting, key=lambda one: (samples or required_samples(noise, effect, level, power, one)) * one)
    count = samples or required_samples(noise, effect, level, power, chosen)
    return Size(
        samples=count,
        epochs=chosen,
        effect=effect,
        level=level,
        power_wanted=power,
        power=power_of(noise, count, chosen, effect, level),
        smallest_effect=_quantiles(level, power) * math.sqrt(noise.variance(chosen) / count),
        needed={one: required_samples(noise, effect, level, power, one) for one in (1, 2, 3, 4, 5, 8, 16)},
        noise=noise,
    )


def _refusal(noise: Noise, effect: float, level: float, power: float, samples: int, epochs: int | None) -> str:
    most = epochs or EPOCHS_MAX
    reached = power_of(noise, samples, most, effect, level)
    smallest = _quantiles(level, power) * math.sqrt(noise.variance(most) / samples)
    needed = required_samples(noise, effect, level, power, most)
    if epochs is None and noise.design_effect * noise.between * _quantiles(level, power) ** 2 > samples * effect**2:
        why = "no number of epochs reaches it, as samples differ in their true difference"
    else:
        why = f"{needed} samples would"
    return (
        f"{samples} samples in {most} epochs see an effect of {effect:.3g} with a power of {reached:.0%}, not "
        f"{power:.0%}: {why}; they see {smallest:.3g} with {power:.0%}"
    )


def measured_noise(baseline: Profile, candidate: Profile | None, *, correlation: float = 0.0) -> Noise:
    """Variances in the scores of two runs of the same samples, or of one and an assumption.

    Args:
        baseline: With scores, of two epochs at least.
        candidate: The other system; without, it is assumed to be like the baseline.
        correlation: Without a candidate only: of the true scores of both systems.

    Raises:
        ConfigError: too few scored samples, or a single epoch.
    """
    first = _scores(baseline, "baseline")
    if candidate is None:
        within, between = _components(list(first.values()))
        return Noise(between=2 * (1 - correlation) * between, within=2 * within)
    second = _scores(candidate, "candidate")
    shared = [key for key in first if key in second]
    if len(shared) < PILOT_MIN:
        raise ConfigError("candidate", f"{len(shared)} samples in common", f"at least {PILOT_MIN}")
    differences = {key: statistics.fmean(second[key]) - statistics.fmean(first[key]) for key in shared}
    within_sum = sum(_components([scores[key] for key in shared])[0] for scores in (first, second))
    per_mean = statistics.fmean(
        sum(_unbiased(scores[key]) / len(scores[key]) for scores in (first, second)) for key in shared
    )
    between = max(0.0, statistics.variance(differences.values()) - per_mean)
    return Noise(between, within_sum, design_effect(differences, {key: key[0] for key in shared}))


def design_effect(values: Mapping[tuple[str, str], float], clusters: Mapping[tuple[str, str], Hashable]) -> float:
    """Variance of the mean with values grouped by cluster, over that without; 1 for a single cluster or one each."""
    names = set(clusters.values())
    if len(names) in (1, len(values)):
        return 1.0
    mean = statistics.fmean(values.values())
    sums = dict.fromkeys(names, 0.0)
    for key, value in values.items():
        sums[clusters[key]] += value - mean
    plain = sum((value - mean) ** 2 for value in values.values())
    clustered = sum(one**2 for one in sums.values()) * len(names) / (len(names) - 1)
    return max(1.0, clustered / plain) if plain else 1.0


def _scores(profile: Profile, name: str) -> dict[tuple[str, str], list[float]]:
    scores = {
        key: [trial.score for trial in some if trial.score is not None] for key, some in profile.by_sample().items()
    }
    scores = {key: some for key, some in scores.items() if some}
    if len(scores) < PILOT_MIN:
        allowed = f"at least {PILOT_MIN} samples with a score; fewer do not permit an estimate of the power"
        raise ConfigError(name, f"{len(scores)} samples with a score", allowed)
    if all(len(some) < 2 for some in scores.values()):
        raise ConfigError(
            name, "one epoch", "at least two epochs, to separate the noise of trials from that of samples"
        )
    return scores


def _unbiased(values: Sequence[float]) -> float:
    return statistics.variance(values) if len(values) > 1 else 0.0


def _components(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Variance within groups, and of their true means."""
    within = statistics.fmean(statistics.variance(some) for some in groups if len(some) > 1)
    means = [statistics.fmean(some) for some in groups]
    noise = statistics.fmean(within / len(some) for some in groups)
    return within, max(0.0, statistics.variance(means) - noise)
