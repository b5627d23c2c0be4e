"""Closing messages of peers, their interpretation, and the limits on silence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmrc.connection import Evidence, Loss, QpSettings
from openmrc.connection.liveness import GOODBYE, closing_words, loss_of
from openmrc.connection.settings import retries_for, retry_s


@pytest.mark.parametrize(
    "loss",
    [
        Loss(GOODBYE, goodbye=True),
        Loss("it gave up"),
        Loss("no answer — für 60 s", culprit=3),
        Loss("its process was killed by SIGKILL", culprit=3, evidence=Evidence.EXIT_STATUS),
    ],
)
def test_words_arrive_as_they_were_said(loss: Loss):
    assert loss_of(closing_words(loss)) == loss


def test_words_that_are_not_whole_are_waited_for():
    words = closing_words(Loss("it gave up", culprit=1))
    assert [loss_of(words[:end]) for end in range(1, len(words))] == [None] * (len(words) - 1)


@given(st.binary(min_size=1))
def test_no_bytes_do_harm(data: bytes):
    for words in (data, b"!" + data, b"!" + data + b"\n", b'!{"reason": ' + data + b"}\n"):
        loss = loss_of(words)
        assert loss is None or (loss.reason.isprintable() and len(loss.reason) <= 300)


@pytest.mark.parametrize(
    "words",
    [
        [],
        {},
        {"reason": 3},
        {"reason": "x", "culprit": "1"},
        {"reason": "x", "culprit": True},
        {"reason": "x", "evidence": []},
        "x",
        10**400,
    ],
)
def test_other_words_break_the_protocol(words: object):
    assert loss_of(b"!" + json.dumps(words).encode() + b"\n") == Loss("it broke the protocol")
    assert loss_of(b"!" + b"[" * 1500 + b"\n") == Loss("it broke the protocol")
    assert loss_of(b"!" + b" " * 5000) == Loss("it broke the protocol")


def test_a_long_reason_is_cut():
    loss = loss_of(closing_words(Loss("\x1b[31m" + "x" * 10_000)))
    assert loss is not None
    assert loss.reason.startswith("[31mxxx")
    assert len(loss.reason) < 300


def test_the_documented_budget_of_a_connection():
    assert QpSettings().retry_s == pytest.approx(17.2, abs=0.1)
    assert QpSettings(exponential_retries=25).retry_s is None


@given(st.floats(0.01, 1000), st.integers(0, 20))
def test_retries_last_for_a_timeout(timeout_s: float, exponent: int):
    settings = QpSettings(timeout_exponent=exponent)
    count = retries_for(timeout_s, settings)
    lasts_s = retry_s(exponent, settings.linear_retries, count)
    assert lasts_s is None or lasts_s >= timeout_s
    if count > 0:
        shorter_s = retry_s(exponent, settings.linear_retries, count - 1)
        assert shorter_s is not None
        assert shorter_s < timeout_s
