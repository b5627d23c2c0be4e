"""The story of `openmrc demo train`: MRC and Gloo, each without faults and with them; the same steps each time."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from openmrc.fabric import parse_fault
from openmrc.runs.bench.rows import current_commit, describe_machine
from openmrc.runs.environment import FabricEnvironment
from openmrc.runs.processes.supervisor import ChildError, Family
from openmrc.runs.training.environments import ENVIRONMENTS, environment_up
from openmrc.runs.training.errors import TrainingError
from openmrc.runs.training.job import Job, Strike
from openmrc.runs.training.model_size import ModelSize
from openmrc.runs.training.progress_view import TrainView
from openmrc.runs.training.training_record import TrainRun, Tried
from openmrc.testbed import rootless

__all__ = ["QUICK", "TrainOptions", "TrainResult", "choose_environment", "run_train", "story"]

QUICK = ModelSize(layers=1, width=64, heads=2, context=32, batch=4)
STEPS_MIN, STEPS_MAX = 12, 20_000

# Start by share of the steps, duration by share of the time without faults. A fault begins by steps, not by the clock,
# so that none comes after the end. All affect plane 0, which Gloo uses, and MRC as well.
_STORY = (
    (0.15, 0.18, "plane 0 blackhole for {length}", "Plane 0 dies silently"),
    (0.45, 0.15, "t1 1 reboot for {length}", "T1 1 of every plane reboots"),
    (0.72, 0.15, "host 3 plane 0 down every {period} for {length}", "The NIC port of host 3 in plane 0 flaps"),
)


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """Options of the demo.

    Args:
        place: Key of ENVIRONMENTS.
        rate_bps: Of each link, in b/s.
        seconds: Approximate duration of the run without faults.
        steps: Of each run; None: as many as fit.
        seed: Of weights, batches and the fabric.
        size: Of the model.
        gloo: Run Gloo too, where TCP crosses the network.
        patience_s: A run without a step for this long is given up.
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
    """All runs, their verdict, and the options.

    `runs` has the run without faults first; Gloo's is missing if it cannot run, and `left_out` has the reason.
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
        """True if MRC's weights with faults equal those without, bit for bit."""
        return self.whole.digest is not None and self.whole.digest == self.broken.digest

    @property
    def survived(self) -> bool:
        """True if MRC kept its promises."""
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


def choose_environment(wanted: str | None) -> tuple[str, str | None]:
    """(Key of ENVIRONMENTS, reason against the test bed if chosen by default)."""
    if wanted is not None:
        return wanted, None
    if (why := rootless.needed()) is not None:
        return "emulated", why
    if importlib.util.find_spec("pyroute2") is None:
        return "emulated", "pyroute2 is missing: pip install 'openmrc[testbed]'"
    return "testbed", None


def story(steps: int, length_s: float) -> tuple[Strike, ...]:
    """The faults of a run with this number of steps, which takes `length_s` without faults."""
    strikes = []
    for share, length, fault, words in _STORY:
        # "every T" is on for the first half of T: three times off and on again is two and a half of them.
        times = {"length": length * length_s, "period": length * length_s / 2.5}
        text = fault.format(**{name: f"{seconds * 1e3:.0f}ms" for name, seconds in times.items()})
        strikes.append(Strike(round(share * steps), text, words))
    return tuple(strikes)


def run_train(options: TrainOptions, view: TrainView) -> TrainResult:
    """Runs everything.

    Raises:
        TrainingError: torch is missing.
        ChildError: a rank could not start.
        TestBedError: no test bed could be created.
    """
    if importlib.util.find_spec("torch") is None:
        raise TrainingError("training needs PyTorch, which is missing: pip install 'openmrc[torch]'")
    kind = ENVIRONMENTS[options.place]
    view.say(
        f"{options.ranks} ranks on {kind.title} with {options.planes} planes of {options.rate_bps / 1e6:g} Mb/s "
        "per port"
    )
    left_out = None
    with environment_up(options.place, options.ranks, options.planes, options.rate_bps, options.seed) as environment:
        runs, faults = _mrc(options, environment, view)
        if not options.gloo:
            left_out = "it was not requested"
        elif not kind.carries_tcp:
            left_out = "Gloo speaks TCP, and the emulated fabric carries UDP alone; the test bed carries both"
        else:
            runs += _gloo(options, environment, view, runs[0], faults)
            if not runs[-1].finished and runs[-1].name == "gloo-whole":
                left_out = f"it failed in the run without faults: {runs[-1].error}"
    if left_out is not None:
        view.say(f"Gloo is left out: {left_out}")
    return TrainResult(tuple(runs), _settings(options, faults, runs[0]), kind.title, kind.counted, left_out)


def _mrc(
    options: TrainOptions, environment: FabricEnvironment, view: TrainView
) -> tuple[list[TrainRun], tuple[Strike, ...]]:
    with Family() as family:
        job = Job(family, environment, "mrc", options.size, options.seed, options.patience_s, view)
        tried = job.join()
        steps = options.steps or _steps(options.seconds, tried)
        _say_tried(view, "MRC", tried)
        whole = job.train("mrc-whole", "MRC, no faults", tried, steps, ())
        view.done(_ending(whole))
        if not whole.finished:
            raise TrainingError(f"MRC failed in the run without faults: {whole.error}")
        faults = story(steps, whole.length_s)
        for fault in faults:
            environment.check(parse_fault(fault.text))
        broken = job.train("mrc", "MRC, faults", tried, steps, faults)
        view.done(_ending(broken))
        if broken.finished:
            job.leave()
    return [whole, broken], faults


def _gloo(
    options: TrainOptions, environment: FabricEnvironment, view: TrainView, whole: TrainRun, faults: Sequence[Strike]
) -> list[TrainRun]:
    """Without faults and, if that succeeded, with them."""
    with Family() as family:
        job = Job(family, environment, "gloo", options.size, options.seed, options.patience_s, view)
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
