"""Processes of a run: hosts, the emulated fabric, their supervisor, their processor time."""
