"""Runs of real processes on this machine or in a test bed: environments, and a package for each kind of run."""
