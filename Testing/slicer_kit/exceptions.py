"""Exceptions that Qt, VTK or the garbage collector swallow, collected so that they fail the test that caused them."""

import re
import sys
import traceback
from contextlib import contextmanager


class SlotErrors(list):
    """Exceptions raised in slots and observers since the last `clear()`."""

    def start(self) -> None:
        """Catch from now on, in place of printing."""
        self._before = sys.excepthook, sys.unraisablehook
        sys.excepthook = lambda _kind, error, _trace: self.append(error)
        sys.unraisablehook = lambda unraisable: self.append(unraisable.exc_value)

    def stop(self) -> None:
        """Leave exceptions to Python again."""
        sys.excepthook, sys.unraisablehook = self._before

    def text(self) -> str:
        """All of them with their tracebacks."""
        return "\n".join("".join(traceback.format_exception(error)) for error in self)

    @contextmanager
    def expected(self, kind: type[Exception], match: str = ""):
        """What happens inside raises exactly one exception in a slot, of this kind and with this text (regex).

        Yields a list that holds the exception afterwards.
        """
        before = len(self)
        caught: list[Exception] = []
        yield caught
        caught.extend(self[before:])
        del self[before:]
        if len(caught) != 1 or not isinstance(caught[0], kind) or not re.search(match, str(caught[0])):
            texts = [f"{type(error).__name__}: {error}" for error in caught]
            raise AssertionError(f"expected one {kind.__name__} with {match!r} in a slot, got {texts or 'none'}")
