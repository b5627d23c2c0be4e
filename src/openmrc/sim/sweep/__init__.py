"""Sweeps: one scenario, many parameter values and seeds, one table.

from openmrc.sim.sweep import Sweep

sweep = Sweep("permutation.yaml", {"fabric.planes": [1, 2, 4, 8]}, seeds=range(1, 6), out="planes.sweep")
frame = sweep.run()          # a polars DataFrame; calling again runs what is missing
"""

from openmrc.sim.sweep.combinations import PlannedRun, RunSpec
from openmrc.sim.sweep.file import SweepFileError, load_sweep
from openmrc.sim.sweep.sweep import Plot, Sweep, SweepProgress

__all__ = ["PlannedRun", "Plot", "RunSpec", "Sweep", "SweepFileError", "SweepProgress", "load_sweep"]
