"""The outcome of a demo in plain sentences."""

from __future__ import annotations

from dataclasses import dataclass

from openmrc.runs.records.byte_counter import goodput_gbps
from openmrc.runs.records.fault_recovery import stalls_in, summarize_run, worst_stall_ms
from openmrc.runs.records.run_record import FaultSpan, Run

STALL_TARGET_MS = 50.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Sentences, and True if the run kept its promises: right data, no error, no stall above STALL_TARGET_MS."""

    sentences: tuple[str, ...]
    data_correct: bool
    survived: bool


def judge(mrc: Run, rc: Run | None = None) -> Verdict:
    """The course of the MRC run, fault by fault, beside the RC run with the same schedule."""
    sentences = [_transfer_sentence(mrc)]
    sentences += [_fault_sentence(mrc, rc, fault) for fault in _first_of_each(mrc.faults)]
    if rc is not None:
        sentences.append(_contrast_sentence(mrc, rc))
    broken = [flow for flow in mrc.flows if flow.error]
    sentences += [f"MRC {flow.name} ended with an error: {flow.error}." for flow in broken]
    survived = mrc.content_ok and not broken and worst_stall_ms(mrc) <= STALL_TARGET_MS
    return Verdict(tuple(sentences), mrc.content_ok, survived)


def duration(milliseconds: float) -> str:
    """A duration for people: 40 ms, 3.2 s."""
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1e3:.1f} s"


def amount(count: float) -> str:
    """A number of bytes with a decimal unit."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def rate(gbps: float | None) -> str:
    """A goodput in Mb/s or Gb/s."""
    if gbps is None:
        return "not measured"
    return f"{gbps:.2f} Gb/s" if gbps >= 1 else f"{gbps * 1e3:.0f} Mb/s"


def _transfer_sentence(run: Run) -> str:
    checked = sum(flow.bytes_checked for flow in run.flows)
    wrong = [flow.name for flow in run.flows if not flow.content_ok]
    if wrong:
        return f"Wrong data arrived on {', '.join(wrong)}: this is a bug, please report it with the seed {run.seed}."
    unchecked = [flow.name for flow in run.flows if not flow.bytes_checked]
    if unchecked:
        return f"No data arrived on {', '.join(unchecked)}."
    return f"MRC moved {amount(checked)} between {run.hosts} hosts, and all received bytes were correct."


def _fault_sentence(mrc: Run, rc: Run | None, fault: FaultSpan) -> str:
    same = [one for one in mrc.faults if one.text == fault.text]
    whole = FaultSpan(fault.text, fault.start_s, same[-1].end_s, fault.plane, fault.silent)
    before = goodput_gbps(mrc.placed, mrc.start_s, min(one.start_s for one in mrc.faults))
    during = goodput_gbps(mrc.placed, whole.start_s, whole.end_s)
    share = f" ({during / before:.0%} of before)" if during is not None and before else ""
    flow, stall = stalls_in(mrc, whole)[0] if mrc.flows else (None, 0.0)
    paused = f"no transfer paused longer than {duration(max(stall, 10.0))}" if flow else "no data was transferred"
    sentence = f"{fault.text}: MRC kept {rate(during)}{share}; {paused}"
    if rc is None or not rc.flows:
        return sentence + "."
    rc_flow, rc_stall = stalls_in(rc, whole)[0]
    if rc_stall > 2 * max(stall, STALL_TARGET_MS):
        return f"{sentence}. RC: {rc_flow.name} stopped for {duration(rc_stall)}."
    return f"{sentence}. RC was not affected more (longest pause {duration(max(rc_stall, 10.0))})."


def _contrast_sentence(mrc: Run, rc: Run) -> str:
    ours, theirs = summarize_run(mrc), summarize_run(rc)
    failed = [flow.name for flow in rc.flows if flow.error]
    text = f"Over the whole schedule MRC delivered {rate(ours.goodput_gbps)} and RC {rate(theirs.goodput_gbps)}"
    if theirs.goodput_gbps > 0:
        text += f", {ours.goodput_gbps / theirs.goodput_gbps:.1f} times as much"
    if failed:
        text += f"; with RC {', '.join(failed)} ended in an error"
    return text + "."


def _first_of_each(faults: tuple[FaultSpan, ...]) -> list[FaultSpan]:
    return list({fault.text: fault for fault in reversed(faults)}.values())[::-1]
