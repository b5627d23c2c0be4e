"""One question to the simulator, from the scenario to a picture; open it cell by cell in an editor that knows `# %%`.

How much longer does an all-reduce take while links between T0s and T1s flap, over MRC and over DCTCP?

    python examples/simulate_cluster.py [PICTURE]

Needs the extra `sim`: pip install 'openmrc[sim]'.
"""

# %% The cluster: 16 NICs on two planes, and what may go wrong in it
import sys

import matplotlib.pyplot as plt
import polars as pl

from openmrc import sim

CLUSTER = {"planes": 2, "hosts": 16, "hosts_per_t0": 4, "t1s": 4, "rate": "100Gbit", "delay": "1us", "trim": "on"}


def scenario(flaps_per_minute: float) -> sim.Scenario:
    """A ring all-reduce while every T0-T1 link fails and comes back at random."""
    flaps = {"links": "t0-t1", "flaps_per_minute": flaps_per_minute, "down_for": "50us", "until": "2ms"}
    return sim.make_scenario(
        name="flapping",
        fabric=CLUSTER,
        workload={"name": "all_reduce", "algorithm": "ring", "bytes": "1MiB"},
        # Links come back within microseconds here, so their EVs are probed more often than on a real fabric.
        transports={"mrc": {"probe_interval": "20us", "timeout_exponent": 5}, "dctcp": {}},
        faults=[{"random": flaps}] if flaps_per_minute else [],
        duration="500ms",
    )


# %% Run it for several rates; each result carries its flows as a table
rows = []
for rate in (0, 1e6, 3e6):
    result = sim.run(scenario(rate))
    for run in result:
        ratio = run.flows.polars()["ratio"]
        rows.append(
            {
                "flaps_per_minute": rate,
                "transport": run.name,
                "finish_us": run.summary["finish_ps"] / 1e6,
                "ratio_p50": ratio.quantile(0.5),
                "ratio_p100": ratio.max(),
            }
        )
table = pl.DataFrame(rows)
print(table)

# %% And as a picture
figure, axes = plt.subplots(figsize=(6, 4))
for (name,), part in table.group_by("transport", maintain_order=True):
    axes.plot(part["flaps_per_minute"], part["finish_us"], marker="o", label=str(name))
axes.set(xlabel="flaps a minute, all links together", ylabel="all-reduce, us", yscale="log")
axes.legend()
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=150)
