"""User-defined EV selectors and congestion controllers that run inside the native packet loop.

A policy is a handful of functions compiled to C: by Numba (`numba.cfunc`, the optional extra `numba`) or by any C
compiler (`ctypes`). Once registered, its name is valid in the simulator and on real networks, like a built-in one. The
guide "Custom policies" has an example.
"""

from openmrc.policies.loading import load
from openmrc.policies.measuring import SelectorRun, run_ev_selector
from openmrc.policies.registry import register_controller, register_ev_selector
from openmrc.policies.signatures import (
    CC_INIT_SIGNATURE,
    CC_ON_ACK_SIGNATURE,
    CC_ON_LOSS_SIGNATURE,
    CC_ON_SENT_SIGNATURE,
    CC_ON_TRIM_SIGNATURE,
    CC_WINDOW_SIGNATURE,
    INIT_SIGNATURE,
    NEXT_SIGNATURE,
    ON_FEEDBACK_SIGNATURE,
    Feedback,
)

__all__ = [
    "CC_INIT_SIGNATURE",
    "CC_ON_ACK_SIGNATURE",
    "CC_ON_LOSS_SIGNATURE",
    "CC_ON_SENT_SIGNATURE",
    "CC_ON_TRIM_SIGNATURE",
    "CC_WINDOW_SIGNATURE",
    "INIT_SIGNATURE",
    "NEXT_SIGNATURE",
    "ON_FEEDBACK_SIGNATURE",
    "Feedback",
    "SelectorRun",
    "load",
    "register_controller",
    "register_ev_selector",
    "run_ev_selector",
]
