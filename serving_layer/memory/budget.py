"""What is kept of the tables in memory: the blocks that were used last, up to a number of bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from serving_layer.memory.blocks import Block


class Memory:
    """Blocks by name. A name says all about a block's content: it is never changed, only left out and read again."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        # Bytes that are held elsewhere and cannot be given up: the tails.
        self.reserved = 0
        self._blocks: OrderedDict[Hashable, Block] = OrderedDict()
        self._lock = threading.Lock()
        self._loading: dict[Hashable, threading.Lock] = {}

    def block(self, name: Hashable, load: Callable[[], Block]) -> Block:
        """The block of this name, which is loaded by one of those who ask for it at the same time."""
        if (found := self.find(name)) is not None:
            return found
        with self._lock:
            turn = self._loading.setdefault(name, threading.Lock())
        try:
            with turn:
                if (found := self.find(name)) is not None:
                    return found
                loaded = load()
                self._keep(name, loaded)
                return loaded
        finally:
            with self._lock:
                self._loading.pop(name, None)

    def find(self, name: Hashable) -> Block | None:
        with self._lock:
            if name in self._blocks:
                self._blocks.move_to_end(name)
            return self._blocks.get(name)

    def has_room_for(self, more: int) -> bool:
        """Whether a block of so many bytes would drive no other out."""
        return self.bytes + self.reserved + more <= self.most_bytes

    def _keep(self, name: Hashable, block: Block) -> None:
        with self._lock:
            if name in self._blocks:
                return
            self._blocks[name] = block
            self.bytes += block.nbytes
            while self._blocks and self.bytes + self.reserved > self.most_bytes:
                _, oldest = self._blocks.popitem(last=False)
                self.bytes -= oldest.nbytes
