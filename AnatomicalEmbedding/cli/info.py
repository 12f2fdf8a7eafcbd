"""anatemb info: print facts about scans or maps."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..embedding.cache import MapCache, default_folder
from ..errors import AnatomicalEmbeddingError
from ..scan.geometry import spacing_of
from . import arguments, console
from .scans import Scans

if TYPE_CHECKING:
    from ..embedding.map import EmbeddingMap
    from ..scan.sources import Source


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "info",
        help="show facts about scans, DICOM folders and embedding maps",
        description="Shows facts about each file or folder. `anatemb doctor` shows facts about the installation.",
    )
    arguments.add_path(
        parser, "paths", "PATH", f"{arguments.SCANS_HELP}; or maps (.safetensors)", nargs="*"
    )
    check = "also embed each scan; show which part of the body it contains, and whether it seems mirrored or flipped"
    parser.add_argument("--check", action="store_true", help=check)
    parser.add_argument(
        "--clear-cache", action="store_true", help="delete all maps in the cache on disk"
    )
    arguments.complete(parser, run, "series")


def run(options: argparse.Namespace) -> None:
    if options.clear_cache:
        MapCache(default_folder()).shrink(0)
    elif not options.paths:
        raise AnatomicalEmbeddingError(
            "info: no scan was given; give a PATH, or type anatemb doctor."
        )
    maps = [path for path in options.paths if path.suffix == ".safetensors"]
    scans = Scans(options, [path for path in options.paths if path not in maps], options.series)
    descriptions = list(map(_describe_map, maps))
    for source in scans.sources.values():
        with scans.skipping():
            descriptions.append(_describe_scan(source, options))
    if options.json:
        console.print_json(descriptions)
        descriptions = []
    for number, facts in enumerate(descriptions):
        if number:  # an empty line between two scans
            console.say()
        width = max(len(name) for name in facts)
        for name, value in facts.items():
            console.say(f"{name.replace('_', ' '):<{width}}  {_text(value)}")
    scans.check()


def _describe_scan(source: Source, options: argparse.Namespace) -> dict[str, object]:
    """Return facts about a scan: name -> value; with --check, also what its map shows."""
    from ..scan.dicom import describe_series

    volume = source.read()
    facts: dict[str, object] = {"path": source.label}
    if source.series:
        series = describe_series(Path(source.path), source.series)
        facts["series"] = (
            f"{series.uid}  {series.modality}, {series.slices} slices, {series.description}"
        )
    low, high = volume.bounds_ras
    k, j, i = volume.shape
    hu = np.percentile(volume.voxels[::2, ::4, ::4], [1, 50, 99])
    facts |= {
        "voxels_ijk": [i, j, k],
        "spacing_mm": [round(s, 4) for s in volume.spacing],
        "axes": _axes(volume.ijk_to_ras),
        "from_ras_mm": [round(float(x), 1) for x in low],
        "to_ras_mm": [round(float(x), 1) for x in high],
        "hu_1_50_99_percent": hu.round().astype(int).tolist(),
        "notes": list(volume.notes),
    }
    if options.check:
        with console.progress_bar(volume.name or "scan", options.json) as progress:
            embedding = console.open_model(options).embed(volume, progress)
        facts |= _coverage_of(embedding)
        facts["orientation"] = "; ".join(embedding.faults) or "no fault found"
    return facts


def _describe_map(path: Path) -> dict[str, object]:
    """Return facts about the file of a map: name -> value."""
    from ..embedding.map import EmbeddingMap

    embedding = EmbeddingMap.load(path)
    k, j, i = embedding.body.shape
    return {
        "path": str(path),
        "scan": embedding.provenance.scan,
        "model": embedding.provenance.model,
        "weights_hash": embedding.provenance.weights_hash,
        "cells_ijk": [i, j, k],
        "cell_mm": [round(float(c), 3) for c in embedding.cell_mm],
        "body_cells": int(embedding.body.sum()),
        **_coverage_of(embedding),
    }


def _coverage_of(embedding: EmbeddingMap) -> dict[str, object]:
    """Return which part of the body a map shows; {} without body coordinates in mm."""
    from ..embedding.coverage import find_coverage

    if not embedding.provenance.metric or not len(embedding.body_index):
        return {}
    coverage = find_coverage(embedding)
    return {
        "holds": coverage.text,
        "body_heights_mm": [round(coverage.low_mm), round(coverage.high_mm)],
    }


def _axes(ijk_to_ras: np.ndarray) -> str:
    """Return the directions in which i, j, k increase, such as "LPS", and in degrees the angle of an oblique scan."""
    directions = ijk_to_ras[:3, :3] / spacing_of(ijk_to_ras)
    letters = ""
    for direction in directions.T:  # of i, j and k, in RAS
        nearest = int(np.abs(direction).argmax())
        letters += "RAS"[nearest] if direction[nearest] > 0 else "LPI"[nearest]
    cosines = np.abs(directions).max(axis=0)
    tilt = np.degrees(np.arccos(np.clip(cosines, 0, 1))).max()
    return letters if tilt < 0.1 else f"{letters}, {tilt:.1f} degrees oblique"


def _text(value: object) -> str:
    """Return a fact as a text; "-" for an empty list."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return str(value)
