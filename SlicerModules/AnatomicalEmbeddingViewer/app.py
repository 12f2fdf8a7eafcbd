"""The viewer as a program: the features together, the loop that keeps them going, and the server."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from AnatomicalEmbeddingLib.shared.maps.Engine import Choice

from .logic.session import Limits, ThreadedEngine

_BUSY_S, _IDLE_S = 0.03, 0.1
# trame would read our own command line otherwise; pictures are compressed already
_TRAME_OPTIONS = "--server --no-ws-compress --nosignalhandlers"


@dataclass(frozen=True)
class Options:
    """Of `anatemb view`. cohort: its folder, for the gallery. segmenter: folder of one, whose weights go before
    the choice's. port: 0 for a free one. token: "" for a random one. threads: of torch while embedding.
    """

    scans: tuple[Path, ...] = ()
    cohort: Path | None = None
    series: tuple[str, ...] = ()
    demo: bool = False
    demo_follow_up: bool = False
    host: str = "127.0.0.1"
    port: int = 0
    token: str = ""
    browser: bool = True
    segmenter: Path | None = None
    choice: Choice = field(default_factory=Choice)
    threads: int = 0
    limits: Limits = field(default_factory=Limits)


def run(options: Options, say: Callable[[str], None] = print) -> None:
    """Serve the page until Ctrl-C, SIGTERM or SIGHUP; temporary files are removed. A background thread may still be in
    the middle of something: the process should not end by way of Python's finalization.
    """
    os.environ["TRAME_ARGS"] = _TRAME_OPTIONS
    os.environ.setdefault("LP_NUM_THREADS", "0")  # Mesa's own threads cost small pictures more than they save
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # torch's threads would spin where drawing needs the core
    ThreadedEngine.threads = options.threads
    asyncio.run(_serve(options, say))


async def _serve(options: Options, say: Callable[[str], None]) -> None:
    from AnatomicalEmbedding.cli.console import ending_signals

    from .page import Viewer

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_on_loop_error)
    for name in ("wslink.protocol", "aiohttp.server"):
        logging.getLogger(name).addFilter(_is_an_error)
    for number in (signal.SIGINT, *ending_signals()):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C ends the loop by KeyboardInterrupt
            loop.add_signal_handler(number, stop.set)
    viewer = Viewer(options, say)
    tasks: Sequence[asyncio.Task] = ()
    try:
        serving = loop.create_task(viewer.start())
        tasks = (serving, loop.create_task(_keep_going(viewer)), loop.create_task(stop.wait()))
        await asyncio.wait((viewer.server.ready, serving), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            _check_address(serving, options)
        url = viewer.url
        say(f"The viewer is at {url}")
        say("Press Ctrl-C here to end it.")
        if options.browser:
            await asyncio.to_thread(webbrowser.open, url)
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
    finally:
        for task in tasks[1:]:  # nothing may follow what is being closed
            task.cancel()
        await asyncio.gather(*tasks[1:], return_exceptions=True)
        await viewer.stop()
        viewer.session.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict) -> None:
    """A page that was closed while something was sent to it is no error."""
    if not isinstance(context.get("exception"), ConnectionError):
        loop.default_exception_handler(context)


def _is_an_error(record: logging.LogRecord) -> bool:
    """The same, for what libraries log of it while they handle the exception."""
    error = record.exc_info[1] if record.exc_info else sys.exc_info()[1]
    return not isinstance(error, ConnectionError)


def _check_address(serving: asyncio.Task, options: Options) -> None:
    """Say why the server could not start."""
    from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

    error = serving.exception()
    if isinstance(error, OSError):
        reason = (error.strerror or str(error)).split(":")[-1].strip()
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise AnatomicalEmbeddingError(
                f"--host {options.host}: is no address of this computer ({reason}); give one that is, or leave --host "
                "out."
            ) from error
        raise AnatomicalEmbeddingError(
            f"{options.host}:{options.port}: cannot be used ({reason}); give another --port, or 0 for a free one."
        ) from error
    if error is not None:
        raise error


async def _keep_going(viewer) -> None:
    """Poll the features; the page shows what has changed. An error in one turn does not end the session."""
    while True:
        try:
            viewer.poll()
        except Exception as error:
            logging.exception("the viewer: an error while following what goes on")
            viewer.session.say(f"{type(error).__name__}: {error}; see the terminal for the details.")
        await asyncio.sleep(_BUSY_S if viewer.awake else _IDLE_S)
