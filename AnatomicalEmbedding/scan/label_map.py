"""The structures of a labelled scan: masks by name, stored as one flat label map and more layers where they overlap."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Self

import numpy as np

from .geometry import read_nearest, transform_points

Overlap = tuple[str, str, float]  # names of two structures, and the volume, ml, that they share


@dataclass(frozen=True, eq=False)
class LabelMap:
    """The structures of a scan. Structures may overlap.

    Args:
        voxels: (k, j, i) integers, 0 for background. Where structures overlap, the label of the smallest structure.
        ijk_to_ras: (4, 4).
        values: name of structure -> label.
        covered: label maps (k, j, i) of the structures that are not whole in `voxels`; each is whole in one of these.
        texts: name of structure -> its name as the file writes it. `values` may have the name of our vocabulary.
    """

    voxels: np.ndarray
    ijk_to_ras: np.ndarray
    values: dict[str, int]
    covered: tuple[np.ndarray, ...] = ()
    texts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_masks(
        cls, masks: Iterable[tuple[str, np.ndarray]], shape: tuple[int, ...], ijk_to_ras: np.ndarray
    ) -> Self:
        """Join masks, which get the labels 1, 2, ... No mask loses a voxel.

        Args:
            masks: names, each once, and masks (k, j, i) bool.
            shape: (k, j, i).
            ijk_to_ras: (4, 4).
        """
        voxels = np.zeros(shape, np.uint16)
        covered = list[np.ndarray]()
        values: dict[str, int] = {}
        sizes = [
            np.iinfo(int).max
        ]  # voxels of each label; the background lies below all structures
        moved = {0}  # labels of the structures in `covered`, and the background

        def keep(whole: np.ndarray, label: int) -> None:
            """Write a structure into the first layer in which its voxels are free, or into a new layer."""
            free_layers = [layer for layer in covered if not layer[whole].any()]
            if not free_layers:
                free_layers = [np.zeros(shape, np.uint16)]
                covered.append(free_layers[0])
            free_layers[0][whole] = label
            moved.add(label)

        for label, (name, mask) in enumerate(masks, start=1):
            values[name] = label
            sizes.append(int(np.count_nonzero(mask)))
            before = voxels[mask]
            is_below = np.array(sizes) >= sizes[label]  # by label: this structure is drawn over it
            for lower in np.flatnonzero(np.bincount(before)).tolist():
                if is_below[lower] and lower not in moved:
                    keep(voxels == lower, lower)
            if not is_below[before].all():
                keep(mask, label)
            voxels[mask] = np.where(is_below[before], label, before)
        return cls(voxels, ijk_to_ras, values, tuple(covered))

    @property
    def layers(self) -> tuple[np.ndarray, ...]:
        """Label maps (k, j, i); each structure lies in one of them, whole."""
        if not self.covered:
            return (self.voxels,)
        # by label: 1 if the structure is whole in `voxels`; others lie, whole, in a layer of `covered`
        is_whole = np.ones(max(self.values.values()) + 1, self.voxels.dtype)
        for layer in self.covered:
            is_whole[np.flatnonzero(np.bincount(layer.ravel()))] = 0
        return (self.voxels * is_whole[self.voxels], *self.covered)

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return the same structures under new names, without `texts`. names: name -> new name, for names that change.

        `labels.renamed(labels.texts)` has the names that the file writes.
        """
        return replace(
            self, values={names.get(n, n): label for n, label in self.values.items()}, texts={}
        )

    def renumbered(self, values: Mapping[str, int]) -> Self:
        """Return the same structures with new labels. values: name of every structure -> label, 1 or more."""
        dtype = np.min_scalar_type(max(values.values(), default=0))
        new_labels = np.zeros(max(self.values.values(), default=0) + 1, dtype)  # by old label
        for name, label in self.values.items():
            new_labels[label] = values[name]
        return replace(
            self,
            voxels=new_labels[self.voxels],
            values=dict(values),
            covered=tuple(new_labels[layer] for layer in self.covered),
        )

    def mask(self, name: str) -> np.ndarray:
        """Return the mask (k, j, i) bool of a structure. Raises KeyError for an unknown name.

        It is the union of all layers: `voxels` may hold a part of a structure only, which then is whole in `covered`.
        """
        masks = (layer == self.values[name] for layer in (self.voxels, *self.covered))
        return np.logical_or.reduce(list(masks))

    def overlaps(self) -> list[Overlap]:
        """Return each two structures that overlap."""
        names = {label: name for name, label in self.values.items()}
        voxel_ml = abs(float(np.linalg.det(self.ijk_to_ras[:3, :3]))) / 1000
        shared = list[Overlap]()
        for first, second in combinations(self.layers, 2):
            shared_voxels = (first > 0) & (second > 0)
            pairs = np.sort([first[shared_voxels], second[shared_voxels]], axis=0)
            pairs, counts = np.unique(pairs, axis=1, return_counts=True)
            for a, b, count in zip(*pairs, counts, strict=True):
                shared.append((names[a], names[b], count * voxel_ml))
        return shared

    def contains(self, name: str, points_ras: np.ndarray) -> np.ndarray:
        """Return (n,) bool: whether the voxel nearest to each point belongs to a structure; False outside the map.

        Args:
            name: the structure. Raises KeyError for an unknown name.
            points_ras: (n, 3) RAS mm.
        """
        ijk = transform_points(np.linalg.inv(self.ijk_to_ras), points_ras)
        layers = [read_nearest(layer, ijk) for layer in (self.voxels, *self.covered)]
        return (np.stack(layers) == self.values[name]).any(axis=0)

    def at(self, points_ras: np.ndarray) -> np.ndarray:
        """Return the labels (n,) of the voxels nearest to points (n, 3) RAS mm; 0 outside the map."""
        ijk = transform_points(np.linalg.inv(self.ijk_to_ras), points_ras)
        return read_nearest(self.voxels, ijk)
