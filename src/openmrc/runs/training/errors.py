"""Errors of the training demo."""

from __future__ import annotations

from openmrc.errors import OpenmrcError

__all__ = ["TrainingError"]


class TrainingError(OpenmrcError):
    """The job could not be started, or a rank failed before it trained; the text has the reason."""
