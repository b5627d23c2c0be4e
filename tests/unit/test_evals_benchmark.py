"""`benchmarks/evals.py` on synthetic result files, and its oracle beside times computed by hand."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from openmrc.evals.campaign_plan import outcome_of
from openmrc.evals.cluster import load_cluster
from openmrc.evals.placement import placements
from openmrc.evals.trial_profile import Trial
from openmrc.evals.work import Work

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def write_submission(folder: Path, seed: int) -> None:
    """Five runs of 60 tasks, whose times repeat up to a tenth."""
    rng = random.Random(seed)
    tasks = {f"task-{number:02}": rng.lognormvariate(5, 1) for number in range(60)}
    for run in range(5):
        rows = []
        for task, mean_s in tasks.items():
            end = BEGIN + timedelta(seconds=mean_s * rng.uniform(0.9, 1.1))
            times = {"trial_started_at": BEGIN.isoformat(), "trial_ended_at": end.isoformat()}
            rows.append({"task_id": task, "is_resolved": rng.random() < 0.5, **times})
        place = folder / "core" / f"agent-{seed}" / f"run-{run}"
        place.mkdir(parents=True)
        (place / "results.json").write_text(json.dumps({"results": rows}))


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_cases_with_files_are_measured_and_others_left_out(tmp_path: Path):
    for seed in (1, 2):
        write_submission(tmp_path / "results", seed)
    command = [sys.executable, str(BENCHMARKS / "evals.py"), "--results", str(tmp_path / "results")]
    command += ["--only", "order", "looks", "handoff", "--json", str(tmp_path / "rows.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    assert "left out: handoff (--trace is missing)" in done.stderr
    rows = {(row["case"], row["metric"]): row for row in json.loads((tmp_path / "rows.json").read_text())["rows"]}
    assert rows["order", "trials of a submission"]["value"] == 240
    assert rows["order", "wall-clock, 80 slots, median"]["value"] < 0
    assert rows["order", "over the bound, 16 slots"]["min"] >= 1
    assert rows["looks", "systems"]["value"] == 2
    assert rows["looks", "false alarms, all systems"]["value"] < 6
    assert rows["looks", "z above 1.96 at any look"]["value"] > 8


def test_the_oracle_serves_trials_as_the_curve_says(repository: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from _eval_oracle import campaign_s

    cluster = load_cluster(repository / "examples" / "evals" / "home-rig.yaml")
    trials = [Trial(task="t", sample=f"{at}", prompt_tokens=4000, output_tokens=450) for at in range(3)]
    work = Work.of(trials, 0.0)
    found = {one.slots: one for one in placements(cluster, work)}
    alone_s = 4000 / 4000 + 450 / 45  # of a replica that serves one request
    # Three replicas: with three slots every trial has one for itself; with one slot they run one after another.
    for slots, seconds in ((3, alone_s), (1, 3 * alone_s)):
        outcome = outcome_of(cluster, work, trials, found[slots])
        assert campaign_s(cluster, work, outcome) - outcome.load_s == pytest.approx(seconds)
        assert outcome.schedule.wall_clock_s == pytest.approx(seconds)
