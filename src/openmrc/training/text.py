"""The text that the model learns: the log book of an imaginary network, written by a small grammar.

It is made when it is needed, the same for everybody: no file to ship, nobody's words but ours, and regular enough that
a small model visibly learns to spell within a few hundred steps.
"""

from __future__ import annotations

import random

__all__ = ["CHARACTERS", "log_book"]

CHARACTERS = 80_000
_SEED = 20260521

_WORDS: dict[str, tuple[str, ...]] = {
    "opening": (
        "At {hour} {who} {saw}.",
        "{who} {saw}, and nobody else noticed.",
        "Nothing happened until {hour}, when {who} {saw}.",
        "Again {who} {saw}.",
    ),
    "middle": (
        "The {thing} in {place} was {state}, so the packets took {way}.",
        "We {did} the {thing}, waited {count} minutes, and looked at {place} once more.",
        "{count} of the paths through {place} were {state}; the others carried {load}.",
        "Because of the {state} {thing}, {who} {did} the {thing} of {place}.",
        "{Who} says that the {thing} of {place} has always been {state}.",
    ),
    "closing": (
        "The job went on, and its loss kept falling.",
        "By {hour} every plane carried {load} again.",
        "No gradient was lost, only {count} minutes of sleep.",
        "{Who} wrote it down and went back to bed.",
        "The training did not notice.",
    ),
    "hour": ("two in the morning", "half past three", "sunrise", "noon", "a quarter to six", "midnight", "tea time"),
    "who": (
        "the night shift",
        "the new engineer",
        "a probe",
        "the controller",
        "the old technician",
        "one of the hosts",
    ),
    "saw": (
        "saw a queue grow in {place}",
        "found {count} packets missing",
        "heard that a {thing} was {state}",
        "counted the marks on plane {plane}",
        "lost sight of plane {plane}",
    ),
    "thing": ("cable", "transceiver", "switch", "port", "fan", "power supply", "fibre", "laser", "line card"),
    "place": (
        "row {plane}",
        "plane {plane}",
        "the third rack",
        "the far hall",
        "the spine",
        "the cellar",
        "tier {plane}",
    ),
    "state": ("dirty", "dark", "warm", "loose", "silent", "slow", "asleep", "flapping", "upside down"),
    "did": ("cleaned", "replaced", "rebooted", "tightened", "reseated", "admired", "labelled"),
    "way": ("another plane", "the longer way", "whatever was left", "seven other paths", "the next switch"),
    "load": ("a quarter of the load", "a little more each", "what they could", "the whole load", "gradients"),
    "count": ("two", "three", "seven", "eleven", "twelve", "forty", "ninety"),
    "plane": ("zero", "one", "two", "three"),
}


def log_book(characters: int = CHARACTERS) -> str:
    """The first `characters` characters of the log book."""
    draw = random.Random(_SEED)
    parts: list[str] = []
    length = 0
    day = 0
    while length < characters:
        day += 1
        kinds = ("opening", *["middle"] * draw.randint(1, 3), "closing")
        sentences = (_expand(draw.choice(_WORDS[kind]), draw) for kind in kinds)
        entry = f"Day {day}. " + " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences) + "\n"
        parts.append(entry)
        length += len(entry)
    return "".join(parts)[:characters]


def _expand(pattern: str, draw: random.Random) -> str:
    """The pattern with every name in braces replaced by a choice; a capital letter carries over."""
    before, brace, rest = pattern.partition("{")
    if not brace:
        return pattern
    name, _, after = rest.partition("}")
    chosen = _expand(draw.choice(_WORDS[name.lower()]), draw)
    if name[0].isupper():
        chosen = chosen[0].upper() + chosen[1:]
    return before + chosen + _expand(after, draw)
