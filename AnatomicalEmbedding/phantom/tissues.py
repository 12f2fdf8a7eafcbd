"""Tissues and structures of the canonical body: `Resources/Phantom/tissues.csv`, `Resources/Phantom/structures.csv`."""

import numpy as np

from ..resources import read_table

PHASES = ("native", "arterial", "portal", "delayed")
_TISSUES = read_table("Phantom/tissues.csv")
TISSUE_ID = {row["name"]: number for number, row in enumerate(_TISSUES)}
TEXTURE_HU = np.array([float(row["texture"]) for row in _TISSUES], np.float32)
LABEL_ID = {row["name"]: number for number, row in enumerate(read_table("Phantom/structures.csv"))}


def hu_table(phase: str, rng: np.random.Generator) -> np.ndarray:
    """Choose the random HU of every tissue in one patient: float32, indexed by `TISSUE_ID`. phase: one of `PHASES`."""
    usual = np.array([float(row[phase]) for row in _TISSUES])
    spread = np.array([float(row["spread"]) for row in _TISSUES])
    deviation = np.clip(rng.standard_normal(len(_TISSUES)), -2, 2)
    return (usual + deviation * spread).astype(np.float32)
