"""Unmodified RDMA programs on openmrc: the environment in which they find its libibverbs."""

from __future__ import annotations

from openmrc.programs.environment import (
    LIBRARY,
    MANAGER,
    MRC_LIBRARY,
    Prepared,
    library_path,
    loader_problems,
    nccl_plugin_path,
    prepare,
)

__all__ = [
    "LIBRARY",
    "MANAGER",
    "MRC_LIBRARY",
    "Prepared",
    "library_path",
    "loader_problems",
    "nccl_plugin_path",
    "prepare",
]
