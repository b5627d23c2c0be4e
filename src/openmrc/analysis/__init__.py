"""Samples in, numbers and pictures out: everything here is pure and works on records of runs."""
