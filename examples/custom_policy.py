"""An EV selector written in Python, compiled by Numba, run in the native packet loop.

    python examples/custom_policy.py

REPS with a longer memory: the last 32 paths whose packets came back unmarked are used again, oldest first, each once;
while there is none, a random path is tried. Registered as "long_reps" and measured against the selectors of the engine.
Needs numba: pip install 'openmrc[numba]'.
"""

from __future__ import annotations

from numba import cfunc

from openmrc import policies

RING = 32  # paths remembered; a power of two
RANDOM, WRITTEN, FRESH, FIRST = 0, 1, 2, 3  # the words of the state; the ring starts at FIRST
DELIVERED = int(policies.Feedback.DELIVERED)


@cfunc(policies.NEXT_SIGNATURE)
def next_position(state, position_count):
    if state[FRESH] > 0:
        oldest = (state[WRITTEN] - state[FRESH]) % RING
        state[FRESH] -= 1
        return state[FIRST + oldest]
    x = state[RANDOM]  # the seed at first; xorshift64
    x ^= x << 13
    x ^= x >> 7
    x ^= x << 17
    state[RANDOM] = x
    return x % position_count


@cfunc(policies.ON_FEEDBACK_SIGNATURE)
def on_feedback(state, position, feedback, _now_ps):
    if feedback != DELIVERED:
        return
    state[FIRST + state[WRITTEN] % RING] = position
    state[WRITTEN] += 1
    state[FRESH] = min(state[FRESH] + 1, RING)


policies.register_ev_selector("long_reps", next=next_position, on_feedback=on_feedback, state_words=FIRST + RING)


def main() -> None:
    print("8 planes x 16 paths, a quarter of which mark every packet; 1,000,000 packets")
    for name in ("mrc", "random", "reps", "long_reps"):
        run = policies.run_ev_selector(name, ports=8, evs_per_port=16, marking_per_port=4, packets=1_000_000)
        print(f"{name:10} {run.ns_per_packet:6.1f} ns per packet, {run.marked_share:5.1%} of the packets marked")


if __name__ == "__main__":
    main()
