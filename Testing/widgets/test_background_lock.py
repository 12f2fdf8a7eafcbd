"""Test that background threads continue although Slicer's main thread may keep Python's lock while Qt waits."""

import ctypes
import os
import time

import pytest

_STEPS = 300


@pytest.mark.skipif(os.name == "nt", reason="needs usleep of the C library")
def test_the_background_gets_on_while_the_main_thread_keeps_pythons_lock(kit):
    import qt

    from AnatomicalEmbedding.errors import CancelledError
    from AnatomicalEmbeddingLib.shared.panels.Session import Session

    def work(progress, cancelled):
        # as between the operations of a network: the lock is given away and wanted back
        for _ in range(_STEPS):
            if cancelled():
                raise CancelledError("cancelled")
            time.sleep(0)

    session = Session(kit.scene, qt.QTimer())
    panel = object()
    hold = ctypes.PyDLL(None).usleep
    session.attach(panel)
    try:
        session.store._worker.submit("job", work)
        ticks = 0
        while session.store.busy and ticks < _STEPS:
            hold(6000)  # keeps the lock, as an event loop in C++ does
            session.tick()
            ticks += 1
        assert ticks < _STEPS / 3, "one step a tick: the background stands still between ticks"
    finally:
        session.detach(panel)
