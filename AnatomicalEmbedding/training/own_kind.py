"""Trains weights of the kind "any" on a folder of scans of one kind, without labels."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..embedding.calibration import calibration_file
from ..embedding.frames.grey_image import GreyImage
from ..embedding.inference import load_model
from ..embedding.models.registry import write_weights
from ..errors import AnatomicalEmbeddingError, ProgressCallback, VolumeError, require
from ..files import atomic_path
from ..scan.sources import find_scans
from ..scan.volume import check_any
from .frame_building import FEWEST, build_frame
from .frame_calibration import calibrate_frame

_BUILD_SHARE = 0.6  # of the time of a run; the calibration takes the rest

Report = Callable[[str], None]


def train_own_kind(
    paths: Sequence[str | Path],
    output: Path,
    modality: str,
    name: str,
    report: Report = lambda sentence: None,
    progress: ProgressCallback = lambda share, step: None,
) -> Path:
    """Train weights on scans of one kind of object, in any rotation. Returns the path of the weights.

    Args:
        paths: files and folders of at least 8 scans.
        output: folder for weights.safetensors and its calibration.
        modality: one of `grey_image.MODALITIES`.
        name: name of the weights.
        report: called with a sentence about the scans, and about each scan that is left out.
        progress: called with the share of the work that is done, and the name of the step; may raise to stop.

    Raises:
        AnatomicalEmbeddingError: too few scans can be used, they show no common object, or scikit-learn is missing.
        WeightsError: the weights cannot be written.

    Example:
        train_own_kind(["skulls"], Path("run"), "any", "skulls", print)
    """
    require("sklearn.ensemble", "scikit-learn", "calibrating needs", "train")
    images = read_images(paths, output, modality, report)
    if images:
        report(described(images))
    build = build_frame(images, modality, lambda share, step: progress(_BUILD_SHARE * share, step))
    for sentence in build.left_out:
        report(f"left out: {sentence}")
    output.mkdir(parents=True, exist_ok=True)
    path = output / "weights.safetensors"
    card = {
        "kind": "any",
        "modality": modality,
        "unit_mm": build.frame.unit_mm,
        "scans": [image.name for image in build.images],
        "likeness": [round(alignment.likeness, 3) for alignment in build.alignments],
    }
    # a run that was stopped leaves no weights without calibration
    with atomic_path(path) as temporary:
        write_weights(build.frame, temporary, name, card)
        calibration = calibrate_frame(
            load_model(str(temporary), "cpu"),
            build,
            lambda share, step: progress(_BUILD_SHARE + (1 - _BUILD_SHARE) * share, step),
        )
        calibration.save(calibration_file(path))
    progress(1.0, "done")
    return path


def read_images(
    paths: Sequence[str | Path], output: Path, modality: str, report: Report
) -> list[GreyImage]:
    """Read the scans. Copies, and scans that cannot be read, are left out and reported.

    Args:
        paths: files and folders.
        output: a folder that is not searched.
        modality: one of `grey_image.MODALITIES`.
        report: called with a sentence for each scan that is left out.

    Raises:
        AnatomicalEmbeddingError: fewer than 8 scans can be used.
    """
    reasons: list[str] = []
    images = []
    names: dict[str, str] = {}
    for name, source in find_scans(paths, reasons.append, output=output).items():
        try:
            volume = source.read(check_any)
        except VolumeError as error:
            reasons.append(str(error))
            continue
        digest = hashlib.blake2b(np.ascontiguousarray(volume.voxels).data).hexdigest()
        if digest in names:
            reasons.append(f"{source.label}: has the same voxels as {names[digest]}")
            continue
        names[digest] = source.label
        image = GreyImage(volume, modality)
        image.name = name
        images.append(image)
    for reason in reasons:
        report(f"left out: {reason}")
    if len(images) < FEWEST:
        left_out = f"; left out: {reasons[0]}" if reasons else ""
        raise AnatomicalEmbeddingError(
            f"only {len(images)} different scans can be used, but at least {FEWEST} are needed{left_out}; add scans of "
            "the same kind."
        )
    return images


def described(images: Sequence[GreyImage]) -> str:
    """Return a sentence about scans: their number, sizes, voxels and objects."""
    sizes = [size for image in images for size in image.volume.shape]
    spacings = [step for image in images for step in image.volume.spacing]
    radii = [image.radius_mm for image in images]
    return (
        f"{len(images)} scans with {min(sizes)} to {max(sizes)} voxels a side, voxels of {min(spacings):.3g} to "
        f"{max(spacings):.3g} mm, and objects with a radius of {min(radii):.3g} to {max(radii):.3g} mm"
    )
