"""A flag that is true inside a `with` block."""

from __future__ import annotations


class Flag:
    """True inside `with flag:`, otherwise False. Blocks can be nested: the flag is True until the outer block ends."""

    def __init__(self) -> None:
        self._depth = 0

    def __bool__(self) -> bool:
        return self._depth > 0

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
