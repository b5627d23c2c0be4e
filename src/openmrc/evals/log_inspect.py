"""Inspect's logs, by Inspect's own reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, is_zipfile

from openmrc.errors import OpenmrcError
from openmrc.evals.errors import LogError
from openmrc.evals.order_file import EPOCH_KEY, SAMPLE_KEY
from openmrc.evals.trial_profile import Trial, checked_trial

__all__ = ["read_inspect"]

JUDGE_ROLES = frozenset({"grader", "judge"})


def read_inspect(path: Path) -> Iterator[Trial]:
    """Every sample of a log.

    Raises:
        LogError: file, member of the archive, and reason.
        OpenmrcError: Inspect is not installed.
    """
    try:
        from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries
    except ModuleNotFoundError:
        words = "Inspect's logs need its reader; install it with: pip install 'openmrc[eval]'"
        raise OpenmrcError(words) from None
    if path.suffix == ".eval":
        _check_archive(path)
    log = _read(path, "header.json", lambda: read_eval_log(str(path), header_only=True))
    summaries = _read(path, "summaries.json", lambda: read_eval_log_sample_summaries(str(path)))
    if not summaries:
        raise LogError(path, "", "no sample of the run was finished")
    for one in summaries:
        member = f"samples/{one.id}_epoch_{one.epoch}.json"

        def sample(one: Any = one) -> Any:
            return read_eval_log_sample(str(path), id=one.id, epoch=one.epoch)

        yield _trial(_read(path, member, sample), log.eval, path, member)


def _check_archive(path: Path) -> None:
    """Reports a broken archive or a damaged member by name, which Inspect's reader does not."""
    if not is_zipfile(path):
        raise LogError(path, "", "not an archive; the run that wrote it may have been stopped")
    try:
        with ZipFile(path) as archive:
            damaged = archive.testzip()
    except (BadZipFile, OSError, NotImplementedError) as error:
        raise LogError(path, "", f"not an archive: {error}") from None
    if damaged is not None:
        raise LogError(path, damaged, "its checksum is wrong")


def _read(path: Path, member: str, read: Callable[[], Any]) -> Any:
    """Result of Inspect's reader; its exceptions are undocumented, so any of them counts as a damaged member."""
    try:
        return read()
    except Exception as error:  # noqa: BLE001
        reason = (str(error).strip() or type(error).__name__).splitlines()
        raise LogError(path, member, "; ".join(reason[:2])[:300]) from None


@dataclass(slots=True)
class _Calls:
    """Sums over the calls of one model."""

    calls: int = 0
    prompt: int = 0
    cached: int = 0
    output: int = 0
    context: int = 0
    seconds: float | None = None

    def add(self, usage: Any, seconds: float | None) -> None:
        self.calls += 1
        if seconds is not None:
            self.seconds = (self.seconds or 0.0) + seconds
        if usage is None:
            return
        prompt = max(usage.input_tokens, usage.total_tokens - usage.output_tokens)
        self.prompt += prompt
        self.cached += min(usage.input_tokens_cache_read or 0, prompt)
        self.output += usage.output_tokens
        self.context = max(self.context, prompt + usage.output_tokens)


def _trial(sample: Any, spec: Any, path: Path, member: str) -> Trial:
    agent, judge = _Calls(), _Calls()
    for event, scoring in _with_place(sample.events):
        if event.event == "model" and event.cache != "read":
            calls = judge if scoring or event.role in JUDGE_ROLES else agent
            calls.add(event.output.usage, event.working_time or event.output.time)
    metadata = sample.metadata
    values = {
        "task": spec.task,
        "sample": str(metadata.get(SAMPLE_KEY, sample.id)),
        "epoch": metadata.get(EPOCH_KEY, sample.epoch),
        "model": spec.model,
        "total_s": sample.total_time if sample.total_time is not None else _span_s(sample.events),
        "agent_s": agent.seconds,
        "judge_s": judge.seconds,
        "calls": agent.calls,
        "prompt_tokens": agent.prompt,
        "cached_tokens": agent.cached,
        "output_tokens": agent.output,
        "context_tokens": agent.context,
        "judge_calls": judge.calls,
        "judge_prompt_tokens": judge.prompt,
        "judge_output_tokens": judge.output,
        "score": _score(sample.scores or {}),
        "source": path.name,
    }
    return checked_trial(values, path, member)


def _with_place(events: list[Any]) -> Iterator[tuple[Any, bool]]:
    """Events, each with True if a scorer caused it: by its span, in older logs by the step around it."""
    spans: dict[str, bool] = {}
    steps: list[bool] = []
    for event in events:
        if event.event == "span_begin":
            spans[event.id] = event.type in ("scorer", "scorers") or spans.get(event.parent_id, False)
        elif event.event == "step" and event.action == "begin":
            steps.append(event.type == "scorer")
        elif event.event == "step" and steps:
            steps.pop()
        yield event, spans.get(event.span_id, False) or any(steps)


def _span_s(events: list[Any]) -> float | None:
    """Seconds from the first event to the last, for older logs without the time of a sample."""
    times = [event.timestamp for event in events]
    return (max(times) - min(times)).total_seconds() if len(times) > 1 else None


def _score(scores: dict[str, Any]) -> float | None:
    """The first score that is a number or one of Inspect's letters."""
    letters = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
    for score in scores.values():
        if isinstance(score.value, str) and score.value in letters:
            return letters[score.value]
        if isinstance(score.value, int | float):
            return float(score.value)
    return None
