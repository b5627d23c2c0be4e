"""The published experiments of the MRC paper, simulated and compared with the paper's results.

from openmrc.paper import experiments, run_experiments

for outcome in run_experiments(experiments(["9a", "18"]), quick=True):
    print(outcome.finding.figure, outcome.finding.verdict, outcome.finding.we_see)
"""

from openmrc.paper.experiment import Experiment, Outcome
from openmrc.paper.finding import Finding, Measure
from openmrc.paper.findings_page import write_page, write_table
from openmrc.paper.plot import Plot, draw
from openmrc.paper.registry import experiments
from openmrc.paper.runs import PaperProgress, run_experiments

__all__ = [
    "Experiment",
    "Finding",
    "Measure",
    "Outcome",
    "PaperProgress",
    "Plot",
    "draw",
    "experiments",
    "run_experiments",
    "write_page",
    "write_table",
]
