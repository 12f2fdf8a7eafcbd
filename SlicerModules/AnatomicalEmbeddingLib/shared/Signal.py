"""Signals that do not need Qt, a base class for objects that listen to signals, and flags."""

from collections.abc import Callable


class Signal:
    """`emit` calls all connected functions in the caller's thread, in the order in which they were connected."""

    def __init__(self) -> None:
        self._slots: list[Callable] = []

    def connect(self, slot: Callable) -> None:
        if slot not in self._slots:
            self._slots.append(slot)

    def disconnect(self, slot: Callable) -> None:
        if slot in self._slots:
            self._slots.remove(slot)

    def emit(self, *values: object) -> None:
        for slot in list(self._slots):  # a slot may disconnect itself
            slot(*values)


class Listener:
    """Listens to signals and to events of MRML nodes until `close` is called."""

    _steps: tuple[Callable[[], object], ...] = ()

    def atEnd(self, *steps: Callable[[], object]) -> None:
        """Add functions that `close` calls. The function that was added last is called first."""
        self._steps += steps

    def listen(self, signal: Signal, slot: Callable) -> None:
        signal.connect(slot)
        self.atEnd(lambda: signal.disconnect(slot))

    def updateAt(self, *signals: Signal) -> None:
        """Call the method `update` of this object now, and each time that one of the signals is emitted."""
        for signal in signals:
            self.listen(signal, self.update)
        self.update()

    def observe(self, caller, event: int, slot: Callable) -> None:
        """Call a function at each event of a scene or node, until `close` is called.

        Args:
            caller: the scene or node.
            event: number of the event.
            slot: the function.
        """
        tag = caller.AddObserver(event, slot)
        self.atEnd(lambda: caller.RemoveObserver(tag))

    def close(self) -> None:
        """Stop listening, and call the functions that `atEnd` added. Widgets and nodes are not removed."""
        while self._steps:
            *earlier, last = self._steps
            self._steps = tuple(earlier)
            last()


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
