"""Congestion controllers (protocol A.14)."""

def controller_names() -> list[str]: ...
def make_controller(
    name: str,
    *,
    mtu_bytes: int = 4096,
    link_rate_bps: int = 0,
    base_rtt_ps: int = 0,
    trimming: bool = False,
    max_cwnd_bytes: int = 0,
    disable_qa: bool = False,
) -> CongestionController: ...

class CongestionController:
    def on_sent(self, now_ps: int, size_bytes: int) -> None: ...
    def on_ack(
        self,
        now_ps: int,
        new_bytes: int,
        in_flight_bytes: int,
        rtt_ps: int = 0,
        marked: bool = False,
        rcv_cwnd_pen: int = 0,
        restore_cwnd: bool = False,
    ) -> None: ...
    def on_trim(self, now_ps: int, size_bytes: int, in_flight_bytes: int, last_hop: bool = False) -> None: ...
    def on_loss(self, now_ps: int, size_bytes: int, in_flight_bytes: int) -> None: ...
    def window_bytes(self) -> int: ...
    def stats(self) -> dict: ...
