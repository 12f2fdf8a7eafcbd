"""Reads the tables of the canonical body in `Resources/Phantom`."""

import csv

from ..resources import resource

Row = dict[str, str]  # column -> text


def read_table(name: str) -> list[Row]:
    """Return the rows of a CSV file in `Resources/Phantom`."""
    with (resource("Phantom") / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
