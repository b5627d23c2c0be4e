"""Suitability of a host for a device, and recommended changes: see `examine`."""

from __future__ import annotations

from openmrc.doctor.examine import examine
from openmrc.doctor.finding import Finding, Report, Verdict

__all__ = ["Finding", "Report", "Verdict", "examine"]
