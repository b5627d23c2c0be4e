"""Algorithms: each writes the schedule of one rank. They know ranks and bytes, and nothing of networks."""
