"""Synthetic patients whose body coordinates are known exactly, and their labels, from which an atlas is made."""

import numpy as np
import torch

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
    k, j, i = (-(-n // c) for n, c in zip(phantom.volume.shape, CELLS[::-1], strict=True))
    to_ras = phantom.volume.ijk_to_ras
    flip = np.sign(np.diag(to_ras)[:3])  # maps run along R, A, S
    low = np.minimum(
        *(
            transform_points(to_ras, np.array([c]))[0]
            for c in (np.zeros(3), np.array(phantom.volume.shape[::-1]) - 1)
        )
    )
    cell = np.array(CELLS) * np.abs(np.diag(to_ras)[:3])
    cell_to_ras = np.diag([*cell, 1.0])
    cell_to_ras[:3, 3] = low + (cell - np.abs(np.diag(to_ras)[:3])) / 2
    assert (np.abs(flip) == 1).all()
    ras = transform_points(cell_to_ras, np.indices((k, j, i))[::-1].reshape(3, -1).T)
    body = error(phantom.to_body(ras)).reshape(k, j, i, 3)
    held = phantom.volume.sample(ras, outside=-1000.0).reshape(k, j, i) > -950
    embedding = EmbeddingMap(
        torch.from_numpy(np.moveaxis(body, -1, 0).copy()).float(),
        torch.from_numpy(held),
        cell_to_ras,
        to_ras,
        phantom.volume.shape,
        Provenance("exact", "exact", phantom.volume.name, phantom.volume.name),
    )
    return embedding.with_spine(read_spine(embedding, phantom.volume, USUAL_MM))


def labelled(phantom) -> SampledBody:
    k, j, i = np.nonzero(phantom.labels)
    body = phantom.to_body(transform_points(phantom.volume.ijk_to_ras, np.stack([i, j, k], axis=1)))
    names = {
        value: whole_name(name) for value, name in phantom.label_names.items() if name not in SPREAD
    }
    return SampledBody(phantom.volume.name, body, phantom.labels[k, j, i], names, "real")
