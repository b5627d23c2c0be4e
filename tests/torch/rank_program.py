"""One rank: calls a function of a test file and returns its result."""

from __future__ import annotations

import runpy
import traceback
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist


def main(order: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    try:
        body = runpy.run_path(order["file"])[order["body"]]
        where = {"init_method": f"file://{order['store']}", "rank": order["rank"], "world_size": order["ranks"]}
        if order["backend"] is None:
            order["answers"].put((order["rank"], body(where)))
            return
        dist.init_process_group(order["backend"], timeout=timedelta(seconds=60), **where)
        answer = body()
        if order["whole"]:
            dist.barrier()
        dist.destroy_process_group()
        order["answers"].put((order["rank"], answer))
    except BaseException:
        order["answers"].put((order["rank"], AssertionError(f"rank {order['rank']}:\n{traceback.format_exc()}")))


main(globals()["order"])
