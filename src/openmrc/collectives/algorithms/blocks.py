"""Division of a buffer into one block per rank, and of a block into chunks that follow each other in a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Block", "Ready", "blocks_of", "chunks_of", "pieces_of", "rows_of"]

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Block:
    """A range of bytes in a buffer."""

    offset: int
    bytes: int

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.bytes


def blocks_of(whole: Block, count: int, element_bytes: int) -> list[Block]:
    """`count` blocks of whole elements, as equal as can be; the first ones are larger. Some may be empty."""
    elements = whole.bytes // element_bytes
    low, rest = divmod(elements, count)
    blocks, offset = [], whole.offset
    for index in range(count):
        length = (low + (index < rest)) * element_bytes
        blocks.append(Block(offset, length))
        offset += length
    return blocks


def chunks_of(block: Block, chunk_bytes: int, element_bytes: int = 1) -> Iterator[Block]:
    """The block in pieces of whole elements, at most `chunk_bytes` each; none for an empty block."""
    step = max(chunk_bytes // element_bytes, 1) * element_bytes
    for offset in range(0, block.bytes, step):
        yield Block(block.offset + offset, min(step, block.bytes - offset))


def pieces_of(blocks: Iterable[Block], chunk_bytes: int, element_bytes: int = 1) -> list[list[Block]]:
    """The chunks of each block."""
    return [list(chunks_of(block, chunk_bytes, element_bytes)) for block in blocks]


def rows_of(columns: Sequence[Sequence[Part]]) -> Iterator[list[Sequence[Part]]]:
    """The first part of every column, then the second one of each, until none is left; a short column ends earlier."""
    for number in range(max(map(len, columns))):
        yield [column[number : number + 1] for column in columns]


class Ready:
    """The steps that complete each byte range, for consumers that divide the buffer differently."""

    def __init__(self) -> None:
        self._made: list[tuple[Block, int]] = []

    def note(self, block: Block, step: int) -> None:
        """Records that the bytes are complete after the step."""
        self._made.append((block, step))

    def of(self, block: Block) -> Sequence[int]:
        """The steps that complete these bytes."""
        return [step for made, step in self._made if made.offset < block.end and block.offset < made.end]
