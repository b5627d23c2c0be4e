"""Program of test_clocks.py in a time namespace: transfers between two devices, and the times of their events.

Usage: clock_program.py UDP_PORT SECONDS: transfers continue until SECONDS of the monotonic clock; at least one. Prints
a line of JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time

import openmrc
from openmrc.verbs import Access, Device
from openmrc.verbs.event_stream import PortStateChanged

BYTES = 100_000


def main() -> None:
    udp_port, until = int(sys.argv[1]), float(sys.argv[2])
    target = bytearray(BYTES)
    result: dict[str, object] = {"began": time.monotonic(), "writes": 0, "wrong": 0}
    with Device(["127.0.0.61"], udp_port=udp_port) as a, Device(["127.0.0.62"], udp_port=udp_port) as b:
        region = b.open_context().alloc_pd().register(target, Access.REMOTE_WRITE)
        with openmrc.listen(b, "127.0.0.1:0", region=region) as listener:
            found: list[openmrc.Connection] = []
            thread = threading.Thread(target=lambda: found.append(listener.accept(timeout_s=5)))
            thread.start()
            client = openmrc.connect(a, listener.address, timeout_s=5)
            thread.join()
        with client, found[0]:
            writes, wrong = 0, 0
            while writes == 0 or time.monotonic() < until:
                data = bytes([writes % 251 + 1]) * BYTES
                client.write(bytearray(data)).wait(5)
                writes += 1
                wrong += target != data
            result |= {"writes": writes, "wrong": wrong}
            with a.subscribe() as events:
                before = time.monotonic_ns()
                a.set_port_state(0, up=False)
                after = time.monotonic_ns()
                event = next(one for one in events if isinstance(one, PortStateChanged))
                result["event_in_time"] = before <= event.time_ns <= after
        result["rebases"] = a.statistics().clock_rebases
    print(json.dumps(result | {"ended": time.monotonic()}))


if __name__ == "__main__":
    main()
