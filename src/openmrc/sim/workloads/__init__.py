"""Workloads of a simulated fabric by name, each with its settings, and the graphs of ops that they generate."""

from openmrc.sim.workloads.ranks import Place
from openmrc.sim.workloads.registry import WORKLOADS, Workload, build, parse_workload, workload_problems
from openmrc.sim.workloads.values import Settings

__all__ = ["WORKLOADS", "Place", "Settings", "Workload", "build", "parse_workload", "workload_problems"]
