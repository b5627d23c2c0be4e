"""How a buffer is cut: into one block per rank, and a block into chunks that follow each other through a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Block", "blocks_of", "chunks_of"]


@dataclass(frozen=True, slots=True)
class Block:
    """Some bytes of a buffer."""

    offset: int
    bytes: int


def blocks_of(total_bytes: int, count: int, element_bytes: int) -> list[Block]:
    """`count` blocks of whole elements, as equal as can be; the first ones are larger. Some may be empty."""
    elements = total_bytes // element_bytes
    low, rest = divmod(elements, count)
    blocks, offset = [], 0
    for index in range(count):
        length = (low + (index < rest)) * element_bytes
        blocks.append(Block(offset, length))
        offset += length
    return blocks


def chunks_of(block: Block, chunk_bytes: int, element_bytes: int) -> Iterator[Block]:
    """The block in pieces of at most `chunk_bytes`, of whole elements; nothing of an empty block."""
    step = max(chunk_bytes // element_bytes, 1) * element_bytes
    for offset in range(0, block.bytes, step):
        yield Block(block.offset + offset, min(step, block.bytes - offset))
