"""Write a NumPy array into another process's memory, over every local port at once.

python examples/write_array.py            # starts the other process itself
python examples/write_array.py receive    # on one host: prints the address it listens on
python examples/write_array.py send HOST:PORT
"""

import subprocess
import sys

import numpy as np

import openmrc

SHAPE = (1024, 1024)


def receive() -> None:
    array = np.zeros(SHAPE)
    with (
        openmrc.Device(["127.0.0.1", "127.0.0.2"]) as device,
        openmrc.listen(device, "127.0.0.1:0", region=array) as at,
    ):
        print(at.address, flush=True)
        with at.accept(timeout_s=30) as connection:
            connection.recv_imm(timeout_s=30)  # returns when the whole array has landed
            print(f"received {array.nbytes} bytes by {connection.transport.name}, sum {array.sum():.0f}", flush=True)


def send(address: str) -> None:
    array = np.arange(SHAPE[0] * SHAPE[1], dtype=float).reshape(SHAPE)
    with openmrc.Device(["127.0.0.3", "127.0.0.4"]) as device, openmrc.connect(device, address) as connection:
        connection.write(array, imm=1).wait(timeout_s=30)
        print(f"sent {array.nbytes} bytes, sum {array.sum():.0f}", flush=True)


if sys.argv[1:2] == ["receive"]:
    receive()
elif sys.argv[1:2] == ["send"]:
    send(sys.argv[2])
else:
    with subprocess.Popen([sys.executable, __file__, "receive"], stdout=subprocess.PIPE, text=True) as other:
        send(other.stdout.readline().strip())
        print(other.stdout.read(), end="")
