"""Registry of policies by name: checks compiled functions, and passes their addresses to the engine."""

from __future__ import annotations

import ctypes
from _ctypes import CFuncPtr
from typing import Any

from openmrc._native import cc, paths
from openmrc._native import policies as native
from openmrc.errors import ConfigError
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
    Prototype,
)

__all__ = ["register_controller", "register_ev_selector"]

# The engine calls these functions for the life of the process, so they are never released.
_kept: list[object] = []

_NAME_ALLOWED = f"a letter followed by letters, digits, '_', '-' or '.', {native.NAME_BYTES_MAX} characters at most"


def register_ev_selector(
    name: str,
    *,
    next: object,  # noqa: A002
    on_feedback: object = None,
    init: object = None,
    state_words: int = 1,
) -> None:
    """Registers an EV selector under a name, for this process.

    Each function is a Numba `cfunc` or a ctypes function. It runs in the packet loop, in several threads at a time for
    different QPs, and must access its state only.

    Args:
        name: Its name in scenarios, settings and verbs.
        next: `NEXT_SIGNATURE`: the position of the next packet.
        on_feedback: `ON_FEEDBACK_SIGNATURE`, or None for a selector that leaves reactions to the EV states.
        init: `INIT_SIGNATURE`, or None if the seed in the first word of a zeroed block suffices.
        state_words: 64-bit words of state per QP.

    Raises:
        ConfigError: the name is taken or invalid, a function is not compiled or has other types, or state_words is
            not in its range.
    """
    _check_name("ev_selector", name, paths.selector_names())
    _check_state_words(state_words)
    addresses = {
        "init": _address("init", init, INIT_SIGNATURE, optional=True),
        "next": _address("next", next, NEXT_SIGNATURE),
        "on_feedback": _address("on_feedback", on_feedback, ON_FEEDBACK_SIGNATURE, optional=True),
    }
    _keep("ev_selector", name, native.register_ev_selector(name, **addresses, state_words=state_words))
    _kept.extend((next, on_feedback, init))


def register_controller(
    name: str,
    *,
    init: object,
    on_ack: object,
    on_trim: object,
    on_loss: object,
    window_bytes: object,
    on_sent: object = None,
    state_words: int = 1,
) -> None:
    """Registers a congestion controller under a name, for this process.

    Args:
        name: Its name in scenarios, settings and profiles.
        init: `CC_INIT_SIGNATURE`; the block is zeroed before.
        on_ack: `CC_ON_ACK_SIGNATURE`.
        on_trim: `CC_ON_TRIM_SIGNATURE`.
        on_loss: `CC_ON_LOSS_SIGNATURE`.
        window_bytes: `CC_WINDOW_SIGNATURE`; called before every packet.
        on_sent: `CC_ON_SENT_SIGNATURE`, or None.
        state_words: 64-bit words of state per QP.

    Raises:
        ConfigError: as `register_ev_selector`.
    """
    _check_name("controller", name, cc.controller_names())
    _check_state_words(state_words)
    addresses = {
        "init": _address("init", init, CC_INIT_SIGNATURE),
        "on_sent": _address("on_sent", on_sent, CC_ON_SENT_SIGNATURE, optional=True),
        "on_ack": _address("on_ack", on_ack, CC_ON_ACK_SIGNATURE),
        "on_trim": _address("on_trim", on_trim, CC_ON_TRIM_SIGNATURE),
        "on_loss": _address("on_loss", on_loss, CC_ON_LOSS_SIGNATURE),
        "window_bytes": _address("window_bytes", window_bytes, CC_WINDOW_SIGNATURE),
    }
    _keep("controller", name, native.register_controller(name, **addresses, state_words=state_words))
    _kept.extend((init, on_ack, on_trim, on_loss, window_bytes, on_sent))


def _check_name(field: str, name: object, known: list[str]) -> None:
    if not isinstance(name, str):
        raise ConfigError(field, name, _NAME_ALLOWED)
    if name in known:
        hint = "a process registers a name once"
        raise ConfigError(field, name, f"a name other than {', '.join(known)}", hint=hint)


def _check_state_words(state_words: object) -> None:
    allowed = f"a whole number from 1 to {native.STATE_WORDS_MAX}"
    if isinstance(state_words, bool) or not isinstance(state_words, int):
        raise ConfigError("state_words", state_words, allowed)
    if not 1 <= state_words <= native.STATE_WORDS_MAX:
        raise ConfigError("state_words", state_words, allowed)


def _keep(field: str, name: str, result: native.RegisterResult) -> None:
    if result == native.RegisterResult.FULL:
        raise ConfigError(field, name, f"{native.ADDED_MAX} registered in one process at most")
    if result != native.RegisterResult.OK:
        raise ConfigError(field, name, _NAME_ALLOWED)


def _address(field: str, function: object, signature: str, *, optional: bool = False) -> int:
    """Address of a compiled function whose types, if known, equal those of `signature`; 0 for None."""
    if function is None and optional:
        return 0
    # A Numba cfunc offers itself as a ctypes function, with types.
    pointer: Any = getattr(function, "ctypes", function)
    if not isinstance(pointer, CFuncPtr):
        allowed = f'a function compiled with numba.cfunc("{signature}"), or a ctypes function'
        raise ConfigError(field, function, allowed + (", or None" if optional else ""))
    found = _types_of(pointer)
    prototype = Prototype(signature)
    if found is not None and found != _shape(prototype.result, prototype.arguments):
        raise ConfigError(field, function, f"a function with the signature {signature!r}")
    address = ctypes.cast(pointer, ctypes.c_void_p).value
    if not address:
        raise ConfigError(field, function, "a function, not a null pointer")
    return address


def _types_of(pointer: Any) -> tuple[str, ...] | None:
    """Types of result and arguments; None for a function of a C library without declared types."""
    if pointer.argtypes is None:
        return None
    return _shape(pointer.restype, tuple(pointer.argtypes))


def _shape(result: Any, arguments: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(_shape_of(one) for one in (result, *arguments))


def _shape_of(ctype: Any) -> str:
    """Relevant properties of a type for a call: integers of one size are equal, pointers are equal, others differ."""
    if ctype is None:
        return "void"
    if ctype is ctypes.c_void_p or hasattr(ctype, "contents"):
        return "pointer"
    code = getattr(ctype, "_type_", None)
    if isinstance(code, str) and code in "bBhHiIlLqQ":
        return f"{8 * ctypes.sizeof(ctype)}-bit integer"
    return str(ctype)
