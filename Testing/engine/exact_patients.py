"""Synthetic patients whose body coordinates are known exactly, and their labels, from which an atlas is made."""

import numpy as np
import torch
from scan_files import voxel_positions

from AnatomicalEmbedding.anatomy.names import VERTEBRAE, whole_name
from AnatomicalEmbedding.embedding.map import EmbeddingMap, Provenance
from AnatomicalEmbedding.embedding.spine_reading import read_spine
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.phantom.frame import VERTEBRA_Z, spine_y
from AnatomicalEmbedding.phantom.landmarks import LANDMARKS
from AnatomicalEmbedding.scan.volume import transform_points
from AnatomicalEmbedding.words.atlas_building import SampledBody

SPACING = (4.0, 4.0, 4.0)
RANGE = (60.0, 480.0)
CELLS = (3, 3, 4)  # voxels of a cell
# (25, 2) A and S, mm, of each vertebra with its arch, in the body of the synthetic patients
_PLACES = [(float(spine_y(VERTEBRA_Z[name])), VERTEBRA_Z[name]) for name in VERTEBRAE[:-1]]
USUAL_MM = np.array([*_PLACES, LANDMARKS["sacral_promontory"][1:]]) - (8, 0)
SPREAD = {"background", "body_other", "muscle", "subcutaneous_fat", "visceral_fat"}


def patient(seed: int, coverage=RANGE):
    return make_phantom(seed, SPACING, coverage, contrast="portal")


def exact_map(phantom, error=lambda body: body) -> EmbeddingMap:
    """A map that states where in the canonical body each cell is; `error` changes these places (n, 3)."""
    volume = phantom.volume
    shape = tuple(-(-n // c) for n, c in zip(volume.shape, CELLS[::-1], strict=True))
    cell_mm = np.array(CELLS) * volume.spacing
    cell_to_ras = np.diag([*cell_mm, 1.0])
    cell_to_ras[:3, 3] = volume.bounds_ras[0] + cell_mm / 2
    ras = voxel_positions(shape, cell_to_ras).reshape(-1, 3)
    body = error(phantom.to_body(ras)).reshape(*shape, 3)
    held = volume.sample(ras, outside=-1000.0).reshape(shape) > -950
    embedding = EmbeddingMap(
        torch.from_numpy(np.moveaxis(body, -1, 0).copy()).float(),
        torch.from_numpy(held),
        cell_to_ras,
        volume.ijk_to_ras,
        volume.shape,
        Provenance("exact", "exact", volume.name, volume.name),
    )
    return embedding.with_spine(read_spine(embedding, volume, USUAL_MM))


def labelled(phantom) -> SampledBody:
    k, j, i = np.nonzero(phantom.labels)
    body = phantom.to_body(transform_points(phantom.volume.ijk_to_ras, np.stack([i, j, k], axis=1)))
    names = {
        value: whole_name(name) for value, name in phantom.label_names.items() if name not in SPREAD
    }
    return SampledBody(phantom.volume.name, body, phantom.labels[k, j, i], names, "real")
