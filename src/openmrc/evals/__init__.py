"""Evaluation campaigns as a workload: profiles of runs, sizes of comparisons, plans on a cluster, and their transfers.

A campaign runs every sample of a set several times (trials) with an agent, and often lets a judge read the outcome.
The package reads logs of such runs, plans the next one on given GPUs, and simulates its transfers on a fabric. It
neither runs evaluations nor simulates a serving engine: the speed of a model comes from a measured service curve.
"""
