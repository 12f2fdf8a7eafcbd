"""The functions for scripts and notebooks.

A scan is anything that `Volume.of` accepts: a Volume, a path, or an image of SimpleITK, nibabel, TorchIO or MONAI. Most
functions also accept the map of a scan, `model.embed(scan)`. If several calls use a scan, make its map once and pass
the map. A function that gets a scan without its map embeds the scan, by default with the shipped weights.
"""

import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .embedding.device import choose_device
from .embedding.inference import Model, load_model
from .embedding.map import EmbeddingMap
from .errors import AnatomicalEmbeddingError, VolumeError
from .matching.match import Matches
from .registration import DEFORMABLE
from .registration.register import register as register_volumes
from .registration.transform import Registration
from .relations.relate import RelatedScan, map_scan, relate
from .relations.relation import matches_in_all
from .resources import weights_for
from .scan.boxes import enclosing, grown
from .scan.cropping import crop_resampled, crop_voxels
from .scan.points import PointList, points_in_ras
from .scan.volume import Film, Volume, is_film_file
from .segmentation.outlining import Outlines, outline
from .segmentation.segmenter import Segmenter, load_segmenter
from .structures.box_finder import RECALL, BoxFinder, StructureBox, choose_examples, open_library
from .structures.locating import Example
from .words import Place, PlaceFinder, not_understood, parse_query, shipped_atlas

Scan = Any  # whatever `Volume.of` accepts


def match(
    template: EmbeddingMap | Scan,
    points: np.ndarray | PointList,
    target: EmbeddingMap | Scan,
    effort: str = "standard",
    *,
    same_patient: bool | None = None,
    frame: str = "RAS",
    model: Model | None = None,
) -> Matches:
    """Find points of one scan in another scan.

    Args:
        template, points, effort, same_patient, frame, model: as in `match_all`.
        target: the scan in which the points are found, or its map.

    Returns:
        The matches.
    """
    return match_all(
        template, points, [target], effort, same_patient=same_patient, frame=frame, model=model
    )[0]


def match_all(
    template: EmbeddingMap | Scan,
    points: np.ndarray | PointList,
    targets: Sequence[EmbeddingMap | Scan],
    effort: str = "standard",
    *,
    same_patient: bool | None = None,
    frame: str = "RAS",
    model: Model | None = None,
) -> list[Matches]:
    """Find points of one scan in several other scans, as `anatemb match` does.

    Args:
        template: map or scan in which the points are given.
        points: (N, 3) mm, or a PointList as `read_points` returns it.
        targets: maps or scans to search.
        effort: "coordinates" (quickest), "fast" or "standard" (most exact).
        same_patient: True to register scans that show one patient, False to match them; default: register scans with
            the same DICOM Patient ID. Where a map is given in place of a scan, the points are matched.
        frame: "RAS" or "LPS": the frame of `points` if they are an array. Answers have `points_ras` and `points_lps`.
        model: the model that embeds scans; default: the shipped weights.

    Returns:
        The matches of each target, in the order of `targets`.

    Raises:
        PointsError: a point lies outside the template.
        MapError: the maps were made with different weights, or a target shows no body.
        AnatomicalEmbeddingError: same_patient is True, but a map was given in place of a scan.
    """
    if isinstance(targets, EmbeddingMap | Volume | str | PathLike):
        raise TypeError("match_all takes a list of targets; for a single target call match.")
    model = model or _model_for([template, *targets])
    places = points_in_ras(points, frame)
    first, *target_scans = (_mapped(scan, model) for scan in (template, *targets))
    cache = None if model is None else model.cache
    relations = [
        relate(first, target, same_patient=same_patient, effort=effort, cache=cache)
        for target in target_scans
    ]
    for relation in relations:
        if relation.refusal:
            warnings.warn(
                f"same_patient: {relation.refusal} The points are matched, and uncertain.",
                stacklevel=2,
            )
    return matches_in_all(relations, places)


def locate(
    scan: EmbeddingMap | Scan,
    structures: Sequence[str] | None = None,
    *,
    recall: float = RECALL,
    examples: Mapping[str, Sequence[Example]] | str | Path | None = None,
    library: str | Path | None = None,
    model: Model | None = None,
) -> dict[str, StructureBox]:
    """Find boxes of structures in a scan, as `anatemb locate` does.

    Args:
        scan: map or scan to search.
        structures: names in any spelling, such as ["liver", "left kidney"]; default: all structures of the library, or
            of `examples`.
        recall: fraction of a structure that its box is expected to hold; a higher recall gives larger boxes.
        examples: your own examples, used instead of the library. Either a folder, or a mapping from the name of a
            structure to its examples, made by `make_example`.
        library: file of a structure library; default: the shipped library.
        model: the model that embeds scans; default: the shipped weights.

    Returns:
        The StructureBox of each structure, by name; with status and `box_ras` (2, 3) RAS mm.
    """
    examples_folder = examples if isinstance(examples, str | Path) else None
    model = model or _model_for([scan, examples_folder])
    embedding = scan if isinstance(scan, EmbeddingMap) else model.embed(scan)
    if isinstance(structures, str):
        structures = [structures]
    provenance = embedding.provenance
    path = None if model is None else model.path
    structure_library = open_library(provenance.weights_hash, provenance.model, library, path)
    margins = structure_library.example_margins
    if examples is None:
        finder = BoxFinder.by_library(structure_library, structures, recall)
    elif isinstance(examples, str | Path):
        finder = BoxFinder.by_folder(Path(examples), model, margins, structures, recall)
    else:
        chosen = choose_examples(examples, structures, "examples")
        finder = BoxFinder(chosen, margins, recall=recall)
    return finder.find(embedding)


def crop(
    scan: Scan,
    structures: Sequence[str],
    *,
    recall: float = RECALL,
    margin_mm: float = 0.0,
    spacing_mm: tuple[float, float, float] | None = None,
    model: Model | None = None,
) -> Volume:
    """Return a scan cropped to the box around structures, as `anatemb crop` does.

    Args:
        scan: the scan.
        structures: names in any spelling.
        recall: fraction of a structure that the box is expected to hold, as in `locate`.
        margin_mm: distance in mm by which every side of the box is moved outward.
        spacing_mm: (3,) voxel size in mm to resample to; default: the voxels of the scan are kept unchanged.
        model: the model that embeds the scan; default: the shipped weights.

    Raises:
        VolumeError: the scan shows none of the structures.
    """
    volume = Volume.of(scan)
    located = locate(volume, structures, recall=recall, model=model)
    boxes = [box.box_ras for box in located.values() if box.box_ras is not None]
    if not boxes:
        names = ", ".join(located)
        raise VolumeError(
            f"{volume.name or 'the scan'}: shows none of the structures {names}; choose other structures."
        )
    box = np.clip(grown(enclosing(boxes), np.full(6, margin_mm)), *volume.bounds_ras)
    if spacing_mm is None:
        return crop_voxels(volume, box)
    return crop_resampled(volume, box, spacing_mm)


def find(
    words: str, scan: Scan, *, embedding: EmbeddingMap | None = None, model: Model | None = None
) -> list[Place]:
    """Return the places in a scan that `words` describe, for example find("12th rib on the right", "scan.nii.gz").

    Args:
        words: English names of structures, regions and levels.
        scan: the scan; its voxels are used to find places more exactly.
        embedding: the map of the scan, if you have made it already.
        model: the model that embeds the scan if `embedding` is not given; default: the shipped weights.

    Raises:
        AnatomicalEmbeddingError: `words` describe no known place.
    """
    mentions = [mention for sentence in parse_query(words) for mention in sentence.mentions]
    if not mentions:
        raise AnatomicalEmbeddingError(not_understood(words))
    volume = Volume.of(scan)
    if embedding is None:
        model = model or load_model()
        embedding = model.embed(volume)
    atlas = shipped_atlas(embedding.provenance.weights_hash, None if model is None else model.path)
    finder = PlaceFinder(embedding, volume, atlas)
    return [place for mention in mentions for place in finder.find(mention)]


def register(
    fixed: Scan,
    moving: Scan,
    kind: str = DEFORMABLE,
    *,
    maps: tuple[EmbeddingMap, EmbeddingMap] | None = None,
    model: Model | None = None,
) -> Registration:
    """Align two scans. Returns a Registration: where every point of the fixed scan lies in the moving scan.

    Args:
        fixed: the scan that stays in place.
        moving: the scan that is aligned to the fixed scan; it may show another part of the body.
        kind: "rigid", "affine" or "deformable" (refined with the voxels).
        maps: the map of the fixed scan and the map of the moving scan, if you have made them already.
        model: the model that embeds the scans if `maps` is not given; default: the shipped weights.
    """
    volumes = Volume.of(fixed), Volume.of(moving)
    if maps is None:
        model = model or load_model()
        maps = model.embed(volumes[0]), model.embed(volumes[1])
    return register_volumes(
        maps, volumes, kind, choose_device("auto") if model is None else model.device
    )


def segment(
    scan: Scan,
    segmenter: Segmenter | str | Path,
    *,
    embedding: EmbeddingMap | None = None,
    model: Model | None = None,
) -> Outlines:
    """Return outlines of the structures that a segmenter was trained for, as `anatemb segment run` does.

    Args:
        scan: the scan.
        segmenter: folder that `anatemb segment train` wrote, or a Segmenter.
        embedding: the map of the scan, if you have made it already.
        model: the model that embeds the scan if `embedding` is not given; default: the weights that the segmenter was
            trained with.
    """
    volume = Volume.of(scan)
    if not isinstance(segmenter, Segmenter):
        segmenter = load_segmenter(
            Path(segmenter), choose_device("auto") if model is None else model.device
        )
    if embedding is None:
        embedding = (model or load_model(segmenter.weights)).embed(volume)
    segmenter.check(embedding.provenance.weights_hash, Path("the segmenter"))
    return outline(volume, embedding, segmenter)


def _model_for(scans: Sequence[EmbeddingMap | Scan | None]) -> Model | None:
    """Return a shipped model if at least one of `scans` is not a map yet; otherwise return None. If a scan is a film,
    this is the model for films."""
    if all(scan is None or isinstance(scan, EmbeddingMap) for scan in scans):
        return None
    return load_model(weights_for("auto", any(map(_is_film, scans))))


def _is_film(scan: EmbeddingMap | Scan | None) -> bool:
    return isinstance(scan, Film) or (isinstance(scan, str | Path) and is_film_file(scan))


def _mapped(scan: EmbeddingMap | Scan, model: Model | None) -> EmbeddingMap | RelatedScan:
    """Return a map unchanged, and any other scan with its map. model: not None unless `scan` is a map."""
    if isinstance(scan, EmbeddingMap):
        return scan
    return map_scan(Volume.of(scan, check=model.check_scan), model.embed, model.for_films)
