"""Workloads that other tools write: connection matrices, schedules, lists of flows, distributions of sizes."""
