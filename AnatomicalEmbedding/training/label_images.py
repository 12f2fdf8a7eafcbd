"""Label images: CT images made from label maps. They show real organs in the canonical body of the phantoms.

Each labelled structure gets the HU of its tissue in a contrast phase. Bones get a dense shell. Hollow organs get a wall
and random contents. The rest of the image is the canonical body, deformed to fit the label map. If the canonical body
shows an organ of the label map at a place where the label map has no label, this place becomes fat or muscle.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Self
from zlib import crc32

import numpy as np
import SimpleITK as sitk
import torch

from ..phantom.anatomy import canonical_anatomy
from ..phantom.deformation import FatLayer
from ..phantom.render import (
    TEXTURE_SIZE,
    BodyIndex,
    ScanGrid,
    add_noise,
    draw_table,
    soften,
    texture,
)
from ..phantom.tissues import LABEL_ID, PHASES, TISSUE_ID, hu_table
from ..resources import read_table
from ..scan.label_map import LabelMap
from ..scan.volume import Volume
from ..structures.label_files import list_of_names, read_label_image, read_texts, write_nifti
from ..structures.label_names import find_structures, structure_name
from .frames import STILL
from .label_frames import Placement, Points, place
from .scans import PreparedScan, Report, Spacing, prepare_volume, with_exact_body, with_labels

SUFFIX = ".seg.nii.gz"
# probability of each of PHASES: most scans of the abdomen are portal venous
_PHASE_ODDS = (0.15, 0.15, 0.6, 0.1)
_BONE = "cortical_bone"
_STRUCTURE_TISSUES = read_table("Phantom/label_tissues.csv")
# these contain fluid or stool, and gas in front of it
_FILLED = ("stomach", "duodenum", "small_bowel", "colon")
_GAS_SHARE = (0.0, 0.4)  # range of their share of gas; by hand
_ORAL_CONTRAST = 0.25  # share of images with contrast medium in stomach and bowel
_ORAL_HU = (120.0, 400.0)  # of this contrast medium; by hand
_NOISE_HU = (6.0, 22.0)  # standard deviation; by hand
_FAT = (-0.5, 0.6)  # range of `FatLayer.change`; by hand


@dataclass(frozen=True, eq=False)
class LabelledBody:
    """The label map of one patient, without a CT image.

    labels: uint8 (k, j, i), index into `names`; 0 for background. names: structures; names[0] is "".
    points: centre and extremes of each complete structure, (7, 3) RAS mm.
    """

    name: str
    labels: np.ndarray = field(repr=False)
    grid: ScanGrid
    names: tuple[str, ...]
    points: Points = field(repr=False)

    @property
    def label_map(self) -> LabelMap:
        values = {name: value for value, name in enumerate(self.names) if name}
        return LabelMap(self.labels, self.grid.ijk_to_ras, values)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read `NAME.seg.nii.gz`, with `NAME.labels.json` next to it. The lobes of an organ become one structure.

        The tilt of the label map's axes is ignored. Raises AnatomicalEmbeddingError if a file is missing or damaged.
        """
        voxels, ijk_to_ras = read_label_image(path, "LPS")
        names = read_texts(list_of_names(path))
        structures: list[str] = [""]
        number = np.zeros(max(int(voxels.max()), *names, 0) + 1, np.uint8)
        for value, name in names.items():
            structure = structure_name(name)
            if tissue_of(structure) is not None:
                if structure not in structures:
                    structures.append(structure)
                number[value] = structures.index(structure)
        labels = number[voxels]
        spacing = tuple(np.linalg.norm(ijk_to_ras[:3, :3], axis=0).tolist())
        grid = ScanGrid(ijk_to_ras[:3, 3], spacing, labels.shape)
        values = {name: value for value, name in enumerate(structures[1:], 1)}
        points, _ = find_structures(LabelMap(labels, grid.ijk_to_ras, values))
        return cls(path.name.removesuffix(SUFFIX), labels, grid, tuple(structures), points)


@lru_cache(maxsize=256)
def tissue_of(structure: str) -> tuple[str, str] | None:
    """Return the tissue inside a structure and the tissue of its outer layer; None if they are not known."""
    for row in _STRUCTURE_TISSUES:
        if re.fullmatch(row["names"], structure):
            return row["tissue"], row["outer_layer"] or row["tissue"]
    return None


@dataclass(frozen=True, eq=False)
class LabelImage:
    """An image of a labelled body. phase: contrast phase. to_body: converts (N, 3) RAS mm to body coordinates."""

    volume: Volume
    phase: str
    to_body: Callable[[np.ndarray], np.ndarray] = field(repr=False)


def make_label_image(body: LabelledBody, placement: Placement, seed: int) -> LabelImage:
    """Make one image of a labelled body; equal seeds make equal images.

    Args:
        body: the labelled body.
        placement: where label maps lie in the body frame.
        seed: determines contrast phase, HU of tissues, fat, contents of hollow organs, and noise.

    Raises KeyError if `placement` has no entry for this body.
    """
    rng = np.random.default_rng([seed, crc32(body.name.encode())])
    body_map = placement.maps[body.name]
    fat = FatLayer(rng.uniform(*_FAT))
    phase = str(rng.choice(PHASES, p=_PHASE_ODDS))

    def to_body(points_ras: np.ndarray) -> np.ndarray:
        return fat.apply(body_map.to_body(points_ras))

    def to_canonical(points_ras: np.ndarray) -> np.ndarray:
        return placement.to_canonical.to_body(to_body(points_ras))

    anatomy = canonical_anatomy(False)
    slices = np.arange(len(body.labels), dtype=float)
    index = BodyIndex(to_canonical, body.grid, anatomy).at(slices)
    tissue = anatomy.nearest(anatomy.tissue, index)
    canonical_labels = _number_canonical_labels(body.names)[anatomy.nearest(anatomy.label, index)]
    tissue = _draw_tissue(body, tissue, canonical_labels, rng)
    hu_of_tissue = hu_table(phase, rng)
    if rng.random() < _ORAL_CONTRAST:
        for name in ("stomach_fluid", "gut_fluid"):
            hu_of_tissue[TISSUE_ID[name]] = rng.uniform(*_ORAL_HU)
    corner = [int(rng.integers(TEXTURE_SIZE)) for _ in range(3)]
    values = hu_of_tissue[tissue] + texture(tissue, corner)
    voxels = torch.from_numpy(values.astype(np.float32))[None, None]
    for axis in range(3):
        if body.grid.spacing[2 - axis] < 3.5:  # thicker slices are blurred enough by averaging
            voxels = soften(voxels, axis)
    hu = voxels[0, 0].numpy()
    draw_table(hu, (tissue != TISSUE_ID["air"]).astype(np.uint8), body.grid)
    add_noise(hu, rng.uniform(*_NOISE_HU), rng)
    hu = np.clip(np.rint(hu), -1024, 3071).astype(np.int16)
    return LabelImage(Volume(hu, body.grid.ijk_to_ras, name=f"{body.name}-{seed}"), phase, to_body)


def write_label_image(
    body: LabelledBody, placement: Placement, seed: int, folder: Path
) -> LabelImage:
    """Make an image of a labelled body, and write it to a folder as a labelled scan.

    The files are NAME.nii.gz, NAME.seg.nii.gz and NAME.labels.json, with the name of the body.

    Args:
        body, placement, seed: as for `make_label_image`.
        folder: the folder.

    Raises KeyError if `placement` has no entry for this body.
    """
    image = make_label_image(body, placement, seed)
    folder.mkdir(parents=True, exist_ok=True)
    write_nifti(folder, body.name, body.label_map)
    image.volume.write(folder / f"{body.name}.nii.gz")
    return image


def _number_canonical_labels(names: Sequence[str]) -> np.ndarray:
    """Return a table (256,): label value in the canonical body -> index in `names` of the label's structure. The index
    is 0 if `names` does not contain the structure."""
    table = np.zeros(256, np.uint8)
    for name, value in LABEL_ID.items():
        structure = structure_name(name)
        table[value] = names.index(structure) if structure in names else 0
    return table


def _draw_tissue(
    body: LabelledBody, tissue: np.ndarray, canonical_labels: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw the structures of `body` over `tissue` (k, j, i) of the canonical body. Returns the new tissue.

    canonical_labels: (k, j, i), structure of the canonical body at each voxel, as index in the names of `body`; 0: no
    structure.
    """
    labels = body.labels
    # voxels of a structure that share a face with another label
    shell = sitk.GetArrayFromImage(sitk.LabelContour(sitk.GetImageFromArray(labels))) > 0
    # tissues of each structure: inside, in its outer layer, and where the label map lacks it
    inside = np.zeros(len(body.names), np.uint8)
    outside = np.zeros_like(inside)
    emptied = np.zeros_like(inside)
    for number, name in enumerate(body.names[1:], 1):
        within, around = tissue_of(name)
        inside[number] = TISSUE_ID[within]
        outside[number] = TISSUE_ID[around]
        bony = around == _BONE or within in ("muscle", "cartilage")
        emptied[number] = TISSUE_ID["muscle" if bony else "visceral_fat"]
    drawn = np.where((labels == 0) & (canonical_labels > 0), emptied[canonical_labels], tissue)
    # where both bodies show the same organ, the canonical tissue stays, because it shows parts such as vessels
    solid = ~np.isin(np.array(body.names), _FILLED) & (outside == inside)
    is_kept = (canonical_labels == labels) & solid[labels]
    own_tissue = np.where(shell, outside[labels], inside[labels])
    drawn = np.where((labels > 0) & ~is_kept, own_tissue, drawn)
    for number, name in enumerate(body.names):
        where = (labels == number) & ~shell
        # gas is at the front, because the patient lies on the back
        if name in _FILLED and where.any():
            gas_border = np.quantile(np.nonzero(where)[1], rng.uniform(*_GAS_SHARE))
            front = np.arange(where.shape[1]) < gas_border
            drawn[where & front[:, None]] = TISSUE_ID["gut_gas"]
    return drawn


def prepare_label_images(
    folder: Path,
    images_per_map: int,
    spacing_mm: Spacing,
    destination: Path,
    report: Report,
) -> list[Path]:
    """Make and prepare images of the label maps in a folder; images that were prepared before are reused.

    Label maps that cannot be placed in the body frame are left out. If none can be placed, AnatomicalEmbeddingError is
    raised.

    Args:
        folder: folder of the label maps, NAME.seg.nii.gz with NAME.labels.json.
        images_per_map: number of images of each label map.
        spacing_mm: spacing of the prepared images, mm.
        destination: folder for the prepared images.
        report: called with a line for each image or label map.
    """
    bodies = [LabelledBody.read(path) for path in sorted(folder.glob("*" + SUFFIX))]
    placement = place({body.name: body.points for body in bodies})
    destination.mkdir(parents=True, exist_ok=True)
    paths = []
    for body in bodies:
        if body.name not in placement.maps:
            report(f"left out: {body.name} shows too few complete structures")
            continue
        for seed in range(images_per_map):
            path = destination / f"labels_{body.name}_{seed}.safetensors"
            if not path.exists():
                image = make_label_image(body, placement, seed)
                prepare_label_image(body, image, path.stem, spacing_mm).save(path)
                report(f"prepared {path.stem}")
            paths.append(path)
    return paths


def prepare_label_image(
    body: LabelledBody, image: LabelImage, name: str, spacing_mm: Spacing
) -> PreparedScan:
    """Resample an image of a labelled body to the working grid; add its body coordinates and its labels.

    Args:
        body: the labelled body.
        image: its image.
        name: name of the prepared scan.
        spacing_mm: spacing of the working grid, mm.
    """
    scan = replace(prepare_volume(image.volume, STILL, spacing_mm), name=name, origin="label map")
    return with_exact_body(with_labels(scan, body.label_map), image.to_body)
