"""Workloads in the formats of other tools: connection matrices, schedules, lists of flows, distributions of sizes."""
