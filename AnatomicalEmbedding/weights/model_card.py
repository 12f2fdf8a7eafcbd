"""Writes the model card of weights: a page for people, and JSON for programs. Data and terms come from the index."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..files import write_text
from .data_index import DataEntry

NAMES = {"open": "ct-open", "all": "ct-research"}  # terms of the data -> name of the weights
TERMS_TEXT = {
    "open": "These weights may be used for any purpose, if the sources in the model card are named.",
    "all": "These weights are for research only, because some of their training data may not be used commercially.",
}
_RESULTS = "Maps, matches and all other results that you compute with these weights are yours."


@dataclass(frozen=True)
class Facts:
    """Facts about a build for the model card.

    steps: round -> optimiser steps. core_hours: of all stages. errors_mm: kind of point -> median error of matches.
    """

    name: str
    terms: str
    recipe: str
    steps: dict[str, int]
    phantoms: int
    core_hours: float
    errors_mm: dict[str, float]
    device: str
    torch: str


def write_card(
    path: Path,
    facts: Facts,
    sha256: str,
    scans: Sequence[DataEntry],
    label_maps: Sequence[DataEntry],
) -> None:
    """Write the card as JSON to `path`, and as Markdown next to it.

    Args:
        path: the JSON file.
        facts: facts about the build.
        sha256: of the weights file.
        scans, label_maps: the training data.
    """
    card = path.with_suffix(".md")
    write_text(card, card_text(facts, scans, label_maps))
    values = {
        "name": facts.name,
        "sha256": sha256,
        "card": card.name,
        "terms": TERMS_TEXT[facts.terms],
        "recipe": facts.recipe,
        "steps": sum(facts.steps.values()),
        "core_hours": round(facts.core_hours, 2),
        "errors_mm": {kind: round(error, 2) for kind, error in facts.errors_mm.items()},
    }
    write_text(path, json.dumps(values, indent=1) + "\n")


def card_text(facts: Facts, scans: Sequence[DataEntry], label_maps: Sequence[DataEntry]) -> str:
    """Return the model card in Markdown.

    Args:
        facts: facts about the build.
        scans, label_maps: the training data.
    """
    steps = ", ".join(f"{name}: {count}" for name, count in facts.steps.items())
    measured = ", ".join(f"{kind} {error:.1f}" for kind, error in facts.errors_mm.items())
    rows = [
        ("recipe", f"`{facts.recipe}`, stored in the weights file"),
        ("steps of each round", steps),
        (
            "core-hours of all stages",
            f"{facts.core_hours:.1f}, on {facts.device} with PyTorch {facts.torch}",
        ),
        (
            "data",
            f"{len(scans)} scans, {len(label_maps)} label maps, {facts.phantoms} synthetic patients",
        ),
        (
            "median errors, mm",
            f"{measured}: matches between patients that were not used for training",
        ),
    ]
    lines = [
        f"# Model card: {facts.name}",
        "",
        f"These weights compute maps of CTs. `anatemb weights` made them. {TERMS_TEXT[facts.terms]} {_RESULTS}",
        "",
        "Use the weights for CTs of adults. They are not a medical device.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in rows),
        "",
        "## Data and terms",
        "",
        "The licences are copied from the index of the data.",
    ]
    for title, entries in (("scans", scans), ("label maps", label_maps)):
        if entries:
            lines += [
                "",
                f"| collection | {title} | licence | source |",
                "|---|---|---|---|",
                *_rows(entries),
            ]
    return "\n".join(lines) + "\n"


def _rows(entries: Sequence[DataEntry]) -> list[str]:
    """Return a row of a Markdown table for each collection, licence and source: how many entries have them."""
    counted = Counter((entry.collection, entry.licence, entry.source) for entry in entries)
    rows = []
    for (collection, licence, source), count in sorted(counted.items()):
        cells = [text.replace("|", "/") for text in (collection, str(count), licence, source)]
        rows.append(f"| {' | '.join(cells)} |")
    return rows
