"""The viewer as a program: starts the server, updates the page, and removes all temporary files at the end."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
import webbrowser
from collections.abc import Callable

from AnatomicalEmbedding.cli.console import ending_signals
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

_POLL_S = 0.03  # time between two polls of the page
# Trame reads these options in place of our command line. JPEG pictures need no further compression.
_TRAME_OPTIONS = "--server --no-ws-compress --nosignalhandlers"


def serve(options: argparse.Namespace, report: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C, SIGTERM or SIGHUP, then remove the temporary files.

    A background thread may still run when this function returns. Therefore the caller should end the process without
    Python's finalization.

    Args:
        options: the options of `anatemb view`.
        report: called with each line for the terminal.

    Raises:
        AnatomicalEmbeddingError: the server cannot start.
    """
    os.environ["TRAME_ARGS"] = _TRAME_OPTIONS
    os.environ.setdefault("LP_NUM_THREADS", "0")  # Mesa draws small pictures faster without threads
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads of torch use no CPU time
    asyncio.run(_serve(options, report))


async def _serve(options: argparse.Namespace, report: Callable[[str], None]) -> None:
    """Start the server, open the browser, and serve until a signal or an error; then close everything."""
    from .page import Viewer  # only after the environment variables are set

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_on_loop_error)
    for name in ("wslink.protocol", "aiohttp.server"):
        logging.getLogger(name).addFilter(_is_fault)
    for number in (signal.SIGINT, *ending_signals()):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C raises KeyboardInterrupt
            loop.add_signal_handler(number, stop.set)
    viewer = Viewer(options, report)
    serving = loop.create_task(viewer.start())
    waiting = loop.create_task(_poll(viewer)), loop.create_task(stop.wait())
    try:
        await asyncio.wait((viewer.server.ready, serving), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            _check_address(serving, options)
        report(f"The viewer is at {viewer.url}")
        report("Press Ctrl-C in this terminal to end the viewer.")
        if not options.no_browser:
            await asyncio.to_thread(webbrowser.open, viewer.url)
        done, _ = await asyncio.wait((serving, *waiting), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
    finally:
        for task in waiting:  # no poll while the page closes
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        if viewer.server.running:
            await viewer.server.stop()
        viewer.session.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict) -> None:
    """Report an error of the event loop, but not a connection error, because the browser has only closed the page."""
    if not isinstance(context.get("exception"), ConnectionError):
        loop.default_exception_handler(context)


def _is_fault(record: logging.LogRecord) -> bool:
    """Return False for the record of a connection error, because this error only means that a page was closed."""
    error = record.exc_info[1] if record.exc_info else sys.exc_info()[1]
    return not isinstance(error, ConnectionError)


def _check_address(serving: asyncio.Task, options: argparse.Namespace) -> None:
    """Raise the error of a server that could not start. For an OSError, the message names --host and --port."""
    error = serving.exception()
    if isinstance(error, OSError):
        reason = (error.strerror or str(error)).split(":")[-1].strip()
        raise AnatomicalEmbeddingError(
            f"{options.host}:{options.port}: the viewer cannot use this address ({reason}); give an address of this "
            "computer with --host and a free port with --port, or leave out both options."
        ) from error
    if error is not None:
        raise error


async def _poll(viewer) -> None:
    """Poll the page again and again. An error is shown and logged, and polling goes on."""
    while True:
        try:
            viewer.poll()
        except Exception as error:
            logging.exception("the viewer: an error while the page was updated")
            viewer.session.report(
                f"The page was not updated ({type(error).__name__}: {error}); see the terminal."
            )
        await asyncio.sleep(_POLL_S)
