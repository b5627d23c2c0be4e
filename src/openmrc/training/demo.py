"""The story of `openmrc demo train`: MRC and Gloo, each without faults and with them; the same steps each time."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from openmrc.analysis.rows import current_commit, describe_machine
from openmrc.fabric import parse_fault
from openmrc.live.supervise import ChildError, Family
from openmrc.testbed import rootless
from openmrc.training.errors import TrainingError
from openmrc.training.job import Job, Strike
from openmrc.training.places import BedPlace, EmulatedPlace, Place
from openmrc.training.record import TrainRun, Tried
from openmrc.training.size import ModelSize
from openmrc.training.view import TrainView

__all__ = ["PLACES", "QUICK", "TrainOptions", "TrainResult", "choose_place", "run_train", "story"]

PLACES: dict[str, type[Place]] = {"testbed": BedPlace, "emulated": EmulatedPlace}
QUICK = ModelSize(layers=1, width=64, heads=2, context=32, batch=4)
STEPS_MIN, STEPS_MAX = 12, 20_000

# After which share of the steps, for which share of the time without faults. A fault begins by steps, not by the clock,
# so that none comes after the end. All strike plane 0, the plane that Gloo uses, and MRC as well.
_STORY = (
    (0.15, 0.18, "plane 0 blackhole for {length}", "Plane 0 dies silently"),
    (0.45, 0.15, "t1 1 reboot for {length}", "T1 1 of every plane reboots"),
    (0.72, 0.15, "host 3 plane 0 down every {period} for {length}", "The NIC port of host 3 in plane 0 flaps"),
)


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """What may be changed.

    Args:
        place: One of PLACES.
        rate_bps: Of each link.
        seconds: How long the run without faults shall take, about.
        steps: Of each run; None: as many as fit.
        seed: Of weights, batches and the fabric.
        size: Of the model.
        gloo: Run Gloo too, where the place can.
        patience_s: A run without a step for so long is given up.
    """

    place: str
    rate_bps: int = 100_000_000
    seconds: float = 20.0
    steps: int | None = None
    seed: int = 1
    size: ModelSize = field(default_factory=ModelSize)
    gloo: bool = True
    patience_s: float = 20.0
    ranks: int = 4
    planes: int = 4


@dataclass(frozen=True, slots=True)
class TrainResult:
    """All runs, what they mean, and what was asked for.

    `runs` has the run without faults first; Gloo's is missing where it cannot run, and `left_out` then says why.
    """

    runs: tuple[TrainRun, ...]
    settings: Mapping[str, Any]
    place: str
    counted: str
    left_out: str | None = None

    @property
    def whole(self) -> TrainRun:
        """MRC without faults."""
        return self.runs[0]

    @property
    def broken(self) -> TrainRun:
        """MRC with faults."""
        return self.runs[1]

    @property
    def gloo(self) -> TrainRun | None:
        """Gloo with faults."""
        return next((run for run in self.runs if run.name == "gloo"), None)

    @property
    def gloo_whole(self) -> TrainRun | None:
        """Gloo without faults."""
        return next((run for run in self.runs if run.name == "gloo-whole"), None)

    @property
    def same_weights(self) -> bool:
        """Whether MRC's weights with faults are bit for bit those without."""
        return self.whole.digest is not None and self.whole.digest == self.broken.digest

    @property
    def survived(self) -> bool:
        """Whether MRC did what is promised."""
        return self.whole.finished and self.broken.finished and self.same_weights

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "settings": dict(self.settings),
            "survived": self.survived,
            "same_weights": self.same_weights,
            "left_out": self.left_out,
            "runs": [run.to_dict() for run in self.runs],
        }


def choose_place(wanted: str | None) -> tuple[str, str | None]:
    """(A name of PLACES, why it is not the test bed if nobody chose)."""
    if wanted is not None:
        return wanted, None
    if (why := rootless.needed()) is not None:
        return "emulated", why
    if importlib.util.find_spec("pyroute2") is None:
        return "emulated", "pyroute2 is missing: pip install 'openmrc[testbed]'"
    return "testbed", None


def story(steps: int, length_s: float) -> tuple[Strike, ...]:
    """The faults of a run of so many steps, which takes `length_s` when nothing breaks."""
    strikes = []
    for share, length, fault, words in _STORY:
        # "every T" is on for the first half of T: three times off and on again is two and a half of them.
        times = {"length": length * length_s, "period": length * length_s / 2.5}
        text = fault.format(**{name: f"{seconds * 1e3:.0f}ms" for name, seconds in times.items()})
        strikes.append(Strike(round(share * steps), text, words))
    return tuple(strikes)


def run_train(options: TrainOptions, view: TrainView) -> TrainResult:
    """Runs it all.

    Raises:
        TrainingError: torch is missing.
        ChildError: a rank could not start.
        TestBedError: no test bed could be made.
    """
    if importlib.util.find_spec("torch") is None:
        raise TrainingError("training needs PyTorch, which is missing: pip install 'openmrc[torch]'")
    kind = PLACES[options.place]
    view.say(
        f"{options.ranks} ranks on {kind.title} with {options.planes} planes of {options.rate_bps / 1e6:g} Mbit/s "
        "per port"
    )
    left_out = None
    with kind(options.ranks, options.planes, options.rate_bps, options.seed) as place:
        runs, faults = _mrc(options, place, view)
        if not options.gloo:
            left_out = "it was not asked for"
        elif "gloo" not in place.backends:
            left_out = "Gloo speaks TCP, and the emulated fabric carries UDP alone; the test bed carries both"
        else:
            runs += _gloo(options, place, view, runs[0], faults)
            if not runs[-1].finished and runs[-1].name == "gloo-whole":
                left_out = f"it did not get through the run without faults: {runs[-1].error}"
    if left_out is not None:
        view.say(f"Gloo is left out: {left_out}")
    return TrainResult(tuple(runs), _settings(options, faults, runs[0]), kind.title, kind.counted, left_out)


def _mrc(options: TrainOptions, place: Place, view: TrainView) -> tuple[list[TrainRun], tuple[Strike, ...]]:
    with Family() as family:
        job = Job(family, place, "mrc", options.size, options.seed, options.patience_s, view)
        tried = job.join()
        steps = options.steps or _steps(options.seconds, tried)
        _say_tried(view, "MRC", tried)
        whole = job.train("mrc-whole", "MRC, no faults", tried, steps, ())
        view.done(_ending(whole))
        if not whole.finished:
            raise TrainingError(f"MRC did not get through the run without faults: {whole.error}")
        faults = story(steps, whole.length_s)
        for fault in faults:
            place.check(parse_fault(fault.text))
        broken = job.train("mrc", "MRC, faults", tried, steps, faults)
        view.done(_ending(broken))
        if broken.finished:
            job.leave()
    return [whole, broken], faults


def _gloo(
    options: TrainOptions, place: Place, view: TrainView, whole: TrainRun, faults: Sequence[Strike]
) -> list[TrainRun]:
    """Without faults and, if that ended well, with them."""
    with Family() as family:
        job = Job(family, place, "gloo", options.size, options.seed, options.patience_s, view)
        try:
            tried = job.join()
        except ChildError as failure:
            raise TrainingError(f"Gloo did not start: {failure}") from failure
        _say_tried(view, "Gloo", tried)
        limit_s = 3 * max(whole.length_s, tried.step_s * whole.wanted) + options.patience_s
        runs = [job.train("gloo-whole", "Gloo, no faults", tried, whole.wanted, (), limit_s)]
        view.done(_ending(runs[0]))
        if runs[0].finished:
            runs.append(job.train("gloo", "Gloo, faults", tried, whole.wanted, faults, limit_s))
            view.done(_ending(runs[1]))
    return runs


def _steps(seconds: float, tried: Tried) -> int:
    return min(max(round(seconds / tried.step_s), STEPS_MIN), STEPS_MAX)


def _say_tried(view: TrainView, name: str, tried: Tried) -> None:
    view.say(
        f"{name}: a step takes {tried.step_s * 1e3:.0f} ms; computing alone {tried.compute_s * 1e3:.0f} ms, adding up "
        f"{tried.gradient_bytes / 1e6:.1f} MB of gradients alone {tried.communicate_s * 1e3:.0f} ms"
    )


def _ending(run: TrainRun) -> str:
    done = f"{len(run.steps)} of {run.wanted} steps in {run.length_s:.1f} s"
    if run.error is not None:
        return f"{run.title}: {done}; {run.error}"
    return f"{run.title}: {done}, loss {run.steps[-1].loss:.3f}, weights {(run.digest or '')[:12]}"


def _settings(options: TrainOptions, faults: Sequence[Strike], whole: TrainRun) -> dict[str, Any]:
    return {
        "command": shlex.join(["openmrc", *sys.argv[1:]]),
        **asdict(options),
        "steps": whole.wanted,
        "faults": [asdict(fault) for fault in faults],
        "gradient_bytes": whole.tried.gradient_bytes,
        "commit": current_commit(),
        "machine": describe_machine(),
    }
