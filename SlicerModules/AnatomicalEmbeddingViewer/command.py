"""The entry point of the viewer: `anatemb view` hands its options over here."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from AnatomicalEmbeddingLib.shared.maps.Engine import Choice

from .app import Options, run


def serve(options: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Serve the page until it is ended. Raises AnatomicalEmbeddingError where it cannot start."""
    segmenter = Path(options.model) if Path(options.model).is_dir() else None
    weights = "auto" if segmenter is not None else options.model
    run(
        Options(
            scans=tuple(options.scans),
            cohort=options.cohort,
            series=tuple(options.series),
            demo=options.demo,
            demo_follow_up=options.demo_follow_up,
            host=options.host,
            port=options.port,
            token=options.token,
            browser=not options.no_browser,
            segmenter=segmenter,
            choice=Choice(weights, options.device, None if options.no_cache else ""),
            threads=options.threads or max(1, (os.cpu_count() or 2) - 1),
        ),
        say,
    )
