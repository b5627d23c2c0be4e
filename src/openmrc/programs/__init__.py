"""Unmodified RDMA programs on openmrc: the environment in which they find its libibverbs."""

from __future__ import annotations

from openmrc.programs.environment import Prepared, library_path, loader_problem, nccl_plugin_path, prepare

__all__ = ["Prepared", "library_path", "loader_problem", "nccl_plugin_path", "prepare"]
