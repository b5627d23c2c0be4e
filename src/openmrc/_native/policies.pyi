"""EV selectors and congestion controllers from outside."""

import enum

NAME_BYTES_MAX: int = 31

STATE_WORDS_MAX: int = 4096

ADDED_MAX: int = 64

class RegisterResult(enum.Enum):
    OK = 0

    NAME_INVALID = 1

    NAME_TAKEN = 2

    FULL = 3

    FUNCTIONS_INVALID = 4

def register_ev_selector(name: str, *, init: int, next: int, on_feedback: int, state_words: int) -> RegisterResult: ...
def register_controller(
    name: str, *, init: int, on_sent: int, on_ack: int, on_trim: int, on_loss: int, window_bytes: int, state_words: int
) -> RegisterResult: ...
def run_selector(
    name: str, *, packets: int, ports: int, evs_per_port: int, marking: int, in_flight: int, seed: int
) -> dict: ...
