"""Writes a table of made-up agent trials, for trying `openmrc eval` without logs of your own.

    python make_runs.py runs.csv [--samples 60] [--epochs 2] [--calls 8] [--seed 1]

Trials of a sample are alike: a hard sample has more calls, takes longer, and is solved less often.
"""

from __future__ import annotations

import argparse
import csv
import random
from pathlib import Path

HEAD = (
    *("sample", "epoch", "total_s", "agent_s", "judge_s", "calls", "prompt_tokens", "cached_tokens", "output_tokens"),
    *("context_tokens", "judge_calls", "judge_prompt_tokens", "judge_output_tokens", "score"),
)


def trial(sample: int, epoch: int, calls_mean: int, difficulty: float, rng: random.Random) -> list[object]:
    calls = max(1, round(calls_mean * difficulty * rng.uniform(0.7, 1.3)))
    prompt = sum(2000 + 900 * call for call in range(calls))
    cached = sum(2000 + 900 * (call - 1) for call in range(1, calls))
    output = 220 * calls
    agent_s = round(output / 60 + prompt / 20_000, 1)
    tools_s = round(calls * rng.lognormvariate(1.0, 0.6), 1)
    solved = int(rng.random() < 1 / (1 + difficulty**2))
    context = 2000 + 900 * calls
    total_s = round(agent_s + tools_s + 3, 1)
    tokens = (calls, prompt, cached, output, context)
    return [f"s{sample:03}", epoch, total_s, agent_s, 3.0, *tokens, 1, min(context, 6000), 250, solved]


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a table of made-up agent trials.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--calls", type=int, default=8, help="of a sample of mean difficulty")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    difficulties = [rng.lognormvariate(-0.2, 0.7) for _ in range(options.samples)]
    with options.file.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEAD)
        for epoch in range(1, options.epochs + 1):
            for sample, difficulty in enumerate(difficulties):
                writer.writerow(trial(sample, epoch, options.calls, difficulty, rng))
    print(f"{options.file}: {options.samples * options.epochs} trials")


if __name__ == "__main__":
    main()
