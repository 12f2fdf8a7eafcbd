"""Builds a frame from scans of one kind: aligns them with one of them, averages them, and aligns them with the mean."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.frames.alignment import UNITS, Alignment, align, mean_image
from ..embedding.frames.frame import SPACING, Frame, FrameSpec
from ..embedding.frames.grey_image import GreyImage, read_grey
from ..errors import AnatomicalEmbeddingError, ProgressCallback
from ..fields.spline import Lattice
from ..scan.geometry import mask_box

FEWEST = 8  # scans
_MARGIN = 3  # voxels of the mean image around the object
FOLDS = 4  # parts of the scans; each is aligned with the mean image of the others; by hand
_ROUNDS = 2  # of such alignments: of nine spines, four were wrong before them, and one afterwards
_SIZES = (0.6, 1.7)  # smallest and largest radius of an object, relative to the median
_TEMPLATES = 3  # scans that are tried as the first template
_LEAST_LIKENESS = 0.5  # with less, two scans of one kind were never rightly aligned
_LEAST_SHARE = 0.7  # least share of the scans that must be alike, and of those that lie alike if rotations are known
_MOST_NAMES = 10  # of odd scans in a message; by hand
_LOWER = 0.75  # a scan is still of the kind if its likeness is this share of the median likeness


@dataclass(frozen=True, eq=False)
class FrameBuild:
    """A frame, the scans that it was built from, and why others were left out.

    frame: the frame. images, alignments: of each scan. left_out: a sentence for each scan that was not used.
    """

    frame: Frame
    images: tuple[GreyImage, ...]
    alignments: tuple[Alignment, ...]
    left_out: tuple[str, ...]


def build_frame(
    images: Sequence[GreyImage],
    modality: str,
    progress: ProgressCallback = lambda share, text: None,
) -> FrameBuild:
    """Build a frame.

    Args:
        images: at least `FEWEST` scans.
        modality: one of `grey_image.MODALITIES`.
        progress: called with the share of the work that is done, and the name of the step; may raise to stop.

    Raises:
        AnatomicalEmbeddingError: too few scans, or the scans have no common object.
    """
    if len(images) < FEWEST:
        raise AnatomicalEmbeddingError(
            f"only {len(images)} scans can be used, but a frame needs at least {FEWEST}; add scans of the same kind."
        )
    radius_mm = float(np.median([image.radius_mm for image in images]))
    template, firsts = _first_template(images, radius_mm, progress)
    chosen, alignments, left_out = _alike(images, firsts, _LEAST_LIKENESS, template.name)
    count = len(chosen)
    voxel_mm = float(np.median([image.voxel_mm for image in images]))
    lattice = _lattice(template, max(SPACING * radius_mm / UNITS, voxel_mm))
    alignments = _aligned_with_others(chosen, alignments, lattice, radius_mm, modality, progress)
    median = float(np.median([alignment.likeness for alignment in alignments]))
    chosen, alignments, odd = _alike(
        chosen, alignments, _LOWER * median, "the mean of the other scans"
    )
    frame = _averaged(chosen, alignments, lattice, radius_mm, modality)
    for n, image in enumerate(chosen):
        progress(0.9 + 0.1 * n / len(chosen), "aligning with the mean image")
        alignments[n] = align(frame.grey_image, image, radius_mm, alignments[n].affine)
    odd_names = _odd_names(chosen, alignments)
    if not _are_enough(len(chosen) - len(odd_names), count):
        raise _mixed(odd_names, count, "their mean image")
    left_out = (*left_out, *odd)
    frame = _averaged(chosen, alignments, lattice, radius_mm, modality, is_final=True)
    return FrameBuild(frame, tuple(chosen), tuple(alignments), left_out)


def without(build: FrameBuild, numbers: Collection[int]) -> Frame:
    """Return the mean of the aligned scans of a build, without the scans with these numbers."""
    chosen = [n for n in range(len(build.images)) if n not in numbers]
    spec = build.frame.spec
    images = [build.images[n] for n in chosen]
    alignments = [build.alignments[n] for n in chosen]
    return _averaged(images, alignments, spec.lattice, spec.radius_mm, spec.modality, is_final=True)


def _first_template(
    images: Sequence[GreyImage], radius_mm: float, progress: ProgressCallback
) -> tuple[GreyImage, list[Alignment]]:
    """Choose the template of the first alignments. Returns it, and the alignment of every scan with it.

    A scan that few others are like is a bad template, so up to `_TEMPLATES` scans of the most usual size are tried.
    """
    order = np.argsort([abs(np.log(max(image.radius_mm, 1e-9) / radius_mm)) for image in images])
    best: tuple[list[str], GreyImage] | None = None
    for number in order[:_TEMPLATES]:
        template = images[number]
        alignments = _aligned_with(template, images, radius_mm, progress)
        odd = _odd_names(images, alignments)
        if _are_enough(len(images) - len(odd), len(images)):
            return template, alignments
        if best is None or len(odd) < len(best[0]):
            best = odd, template
    raise _mixed(best[0], len(images), f"{best[1].name}, the scan that most others are like")


def _aligned_with(
    template: GreyImage, images: Sequence[GreyImage], radius_mm: float, progress: ProgressCallback
) -> list[Alignment]:
    """Align every scan with the template. A scan of an unusual size is not tried, and has the likeness 0."""
    alignments = []
    for n, image in enumerate(images):
        progress(0.4 * n / len(images), f"aligning with {template.name}")
        if not _SIZES[0] < image.radius_mm / radius_mm < _SIZES[1]:
            alignments.append(Alignment(np.eye(4), None, 0.0, 0.0))
        elif image is template:
            alignments.append(Alignment(np.eye(4), None, 1.0, 1.0))
        else:
            alignments.append(align(template, image, radius_mm))
    if _lie_alike(alignments):
        # an object such as a piece of a spine may fit upside down
        for n, image in enumerate(images):
            if alignments[n].is_turned:
                alignments[n] = align(template, image, radius_mm, any_rotation=False)
    return alignments


def _lie_alike(alignments: Sequence[Alignment]) -> bool:
    """Return whether most scans lie in the same rotation as the image with which they were aligned."""
    turned = [first.is_turned for first in alignments if first.likeness >= _LEAST_LIKENESS]
    return turned.count(False) >= max(_LEAST_SHARE * len(turned), FEWEST // 2)


def _alike(
    images: Sequence[GreyImage], alignments: Sequence[Alignment], least: float, template: str
) -> tuple[list[GreyImage], list[Alignment], tuple[str, ...]]:
    """Return the scans that are like the image with which they were aligned.

    Args:
        images: the scans.
        alignments: of each scan.
        least: least likeness.
        template: what they were aligned with.

    Returns:
        The scans, their alignments, and a sentence about each other scan.
    """
    alike = []
    alike_alignments = []
    sentences = []
    for image, alignment in zip(images, alignments, strict=True):
        if alignment.likeness >= least:
            alike.append(image)
            alike_alignments.append(alignment)
        else:
            likeness = f"likeness {alignment.likeness:.2f}"
            sentences.append(f"{image.name}: is not like {template} ({likeness})")
    return alike, alike_alignments, tuple(sentences)


def _aligned_with_others(
    images: Sequence[GreyImage],
    alignments: Sequence[Alignment],
    lattice: Lattice,
    radius_mm: float,
    modality: str,
    progress: ProgressCallback,
) -> list[Alignment]:
    """Align each scan anew with the mean of other scans.

    The first search may have missed by a period of the object, such as a vertebra. Few do, so the mean of the others
    shows the right place. Each new alignment counts at once; otherwise, some scans change places with each round.

    Args:
        images: the scans.
        alignments: the first ones.
        lattice, radius_mm, modality: as in `_averaged`.
        progress: as in `build_frame`.
    """
    current = list(alignments)
    for number in range(_ROUNDS):
        for fold in np.array_split(np.arange(len(images)), FOLDS):
            others = [n for n in range(len(images)) if n not in fold]
            other_images = [images[n] for n in others]
            other_alignments = [current[n] for n in others]
            frame = _averaged(other_images, other_alignments, lattice, radius_mm, modality)
            any_rotation = not frame.spec.anatomical
            for n in fold.tolist():
                share = 0.4 + 0.25 * (number + n / len(images))
                progress(share, "aligning with the mean of other scans")
                current[n] = align(
                    frame.grey_image, images[n], radius_mm, any_rotation=any_rotation
                )
    return current


def _odd_names(images: Sequence[GreyImage], alignments: Sequence[Alignment]) -> list[str]:
    """Return the names of the scans that are not like the image with which they were aligned."""
    return [
        image.name
        for image, alignment in zip(images, alignments, strict=True)
        if alignment.likeness < _LEAST_LIKENESS
    ]


def _are_enough(alike: int, count: int) -> bool:
    """Return whether a frame can be built if `alike` of `count` scans are alike."""
    return alike >= max(_LEAST_SHARE * count, FEWEST)


def _mixed(odd: Sequence[str], count: int, template: str) -> AnatomicalEmbeddingError:
    """Make the error for scans without a common object.

    Args:
        odd: names of the scans that are not like the others.
        count: number of all scans.
        template: what the others are like.
    """
    more = f" and {len(odd) - _MOST_NAMES} more" if len(odd) > _MOST_NAMES else ""
    return AnatomicalEmbeddingError(
        f"only {count - len(odd)} of {count} scans are like {template}; a frame needs one kind of object in all scans: "
        f"give each kind a folder of its own. Not like the others: {', '.join(odd[:_MOST_NAMES])}{more}."
    )


def _lattice(template: GreyImage, spacing_mm: float) -> Lattice:
    """Return the lattice of the frame: around the object of the template."""
    grid = template.on_grid(spacing_mm)
    mask = F.max_pool3d(
        (grid.hu > template.threshold / 2).float()[None], 2 * _MARGIN + 1, 1, _MARGIN
    )
    box = mask_box(mask[0].numpy() > 0)
    first = np.array([part.start for part in reversed(box)])
    x, y, z = (float(value) for value in grid.origin_ras + first * spacing_mm)
    i, j, k = (part.stop - part.start for part in reversed(box))
    return Lattice((x, y, z), (spacing_mm,) * 3, (i, j, k))


def _averaged(
    images: Sequence[GreyImage],
    alignments: Sequence[Alignment],
    lattice: Lattice,
    radius_mm: float,
    modality: str,
    is_final: bool = False,
) -> Frame:
    """Average aligned scans. The frame gets their mean shape; if `is_final`, it keeps the shape of their alignments."""
    places = lattice.places
    if not is_final:
        offsets = []
        for alignment in alignments:
            if alignment.field is not None:
                inverse = torch.from_numpy(np.linalg.inv(alignment.affine[:3, :3])).float()
                offsets.append(torch.tensordot(inverse, alignment.field.on(lattice), dims=1))
        places = places - torch.stack(offsets).mean(dim=0)
    image = mean_image(images, alignments, lattice)
    covered = torch.zeros(lattice.shape)
    for scan, alignment in zip(images, alignments, strict=True):
        grid = scan.on_grid(lattice.spacing_mm[0])
        mask = F.max_pool3d((grid.hu > scan.threshold / 2).float()[None], 3, 1, 1)[0]
        covered += read_grey(mask, grid.lattice, alignment.on(lattice))
    occupancy = covered / len(images)
    likeness, affine_likeness = np.median(
        [(alignment.likeness, alignment.affine_likeness) for alignment in alignments], axis=0
    ).tolist()
    spec = FrameSpec(
        modality,
        lattice.origin_ras,
        lattice.spacing_mm[0],
        lattice.size,
        radius_mm,
        _LOWER * likeness,
        _lie_alike(alignments),
        _LOWER * affine_likeness,
    )
    return Frame(spec, read_grey(image, lattice, places), read_grey(occupancy, lattice, places))
