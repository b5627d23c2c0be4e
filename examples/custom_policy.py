"""An EV selector written in Python, compiled by Numba, run in the native packet loop.

    python examples/custom_policy.py

REPS with a longer memory: the last 32 paths whose packets came back unmarked are used again, oldest first, each once;
while there is none, a random path is tried. It is registered as "long_reps", measured against the engine's selectors,
and simulated: a permutation over a fabric in which one switch is slow. Needs numba: pip install 'openmrc[numba]'.
"""

from __future__ import annotations

from pathlib import Path

from numba import cfunc

from openmrc import policies, sim

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


SELECTORS = ("mrc", "random", "reps", "long_reps")
SCENARIO = {
    "fabric": {
        "planes": 4, "hosts": 32, "hosts_per_t0": 8, "t1s": 4, "rate": "100G", "delay": "500ns",
        "queue_bytes": "1MiB", "ecn": {"min_bytes": "50KB", "max_bytes": "200KB"}, "trim": "on",
    },
    "policies": Path(__file__).name,
    "transports": {name: {"kind": "mrc", "ev_selector": name} for name in SELECTORS},
    "workload": {"name": "permutation", "bytes": "4MiB"},
    "faults": ["plane 0 t1 1 rate 20%"],
}  # fmt: skip


def main() -> None:
    print("8 planes x 16 paths, a quarter of which mark every packet; 1,000,000 packets")
    for name in SELECTORS:
        cost = policies.run_ev_selector(name, ports=8, evs_per_port=16, marking_per_port=4, packets=1_000_000)
        print(f"{name:10} {cost.ns_per_packet:6.1f} ns per packet, {cost.marked_share:5.1%} of the packets marked")

    print("permutation of 32 hosts over 4 planes, one T1 at a fifth of its rate")
    for one in sim.run(sim.make_scenario(folder=Path(__file__).parent, **SCENARIO)):
        found = one.summary
        print(
            f"{one.name:10} {found['slowest_over_ideal']:6.2f} x ideal, {found['retransmitted_share']:5.2%} sent again"
        )


if __name__ == "__main__":
    main()
