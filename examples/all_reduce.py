"""Sum an array over several processes, over two ports each.

python examples/all_reduce.py                         # starts three processes itself
python examples/all_reduce.py RANK SIZE HOST:PORT     # one rank; rank 0 serves the store at HOST:PORT
python examples/all_reduce.py RANK SIZE file:FOLDER   # one rank; the store is a folder that all share
"""

import subprocess
import sys
import tempfile

import numpy as np

import openmrc
from openmrc.collectives import FileStore, ReduceOp, TcpStore, World

COUNT = 1_000_000
RANKS = 3


def work(rank: int, size: int, store: FileStore | TcpStore) -> None:
    ports = [f"127.0.{plane}.{rank + 1}" for plane in (1, 2)]  # addresses of your NICs' ports, one per plane
    with openmrc.Device(ports) as device, World(device, rank, size, store) as world:
        group = world.group
        gradient = np.full(COUNT, rank + 1.0, dtype=np.float32)
        bulk = group.all_reduce(gradient, ReduceOp.AVG)
        steps = np.array([10 * rank])
        group.all_reduce(steps, ReduceOp.MAX, traffic_class="critical").wait(30)  # does not queue behind the other one
        bulk.wait(30)
        print(f"rank {rank}: mean {gradient[0]:g} by {bulk.algorithm}, most steps {steps[0]}", flush=True)
        group.barrier().wait(30)


if len(sys.argv) == 4:
    rank, size, where = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    store = FileStore(where.removeprefix("file:")) if where.startswith("file:") else TcpStore(where, serve=rank == 0)
    work(rank, size, store)
else:
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            subprocess.Popen([sys.executable, __file__, str(one), str(RANKS), f"file:{folder}"]) for one in range(RANKS)
        ]
        sys.exit(max(one.wait() for one in ranks))
