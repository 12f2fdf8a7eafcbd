"""anatemb crop: crop scans to structures, for example before a segmentation; the user chooses the recall."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import AnatomicalEmbeddingError
from ..files import free_name
from ..scan.checks import MAX_SPACING_MM, MIN_SPACING_MM
from ..scan.volume import Volume
from . import arguments, console
from .locate import add_box_options, open_finder
from .scans import Scans

if TYPE_CHECKING:
    from ..dicom.source import SourceSeries

COLUMNS = (
    "scan",
    "crop",
    "structures",
    "voxels_i",
    "voxels_j",
    "voxels_k",
    "volume_ratio",
    "missing",
)


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "crop",
        help="crop scans to structures, with a recall that you choose",
        description="Crops every SCAN to the boxes of the chosen structures and writes NIfTI files. Each box is "
        "enlarged until it is expected to hold the fraction of the structure given with --recall. Boxes end at the "
        "border of the scan. The voxels are not changed unless --spacing is given. A scan that cannot be read, or "
        "shows none of the chosen structures, is reported and skipped. With --dicom, the DICOM SEG "
        "NAME_crop.seg.dcm shows the boxes of the crops in the whole scan.",
    )
    add_box_options(parser, "all of --examples or --library; needed without these options")
    add = parser.add_argument
    add(
        "--separate",
        action="store_true",
        help="write one crop for each structure, not one crop around all structures",
    )
    add(
        "--margin-mm",
        type=arguments.not_negative,
        default=0.0,
        metavar="MM",
        help="mm to add on every side of a box",
    )
    add(
        "--spacing",
        type=_spacing,
        metavar="X,Y,Z",
        help="resample to this voxel size, mm; -1000 HU outside the scan",
    )
    result = (
        "do the reverse: resample label maps that another program made from crops to the voxels of the whole SCAN. "
        "RESULT is one label map, or a folder of label maps whose names start with the name of their scan"
    )
    arguments.add_path(parser, "--paste-back", "RESULT", result)
    arguments.complete(parser, run, "scans", "output", "dicom", "series")


def run(options: argparse.Namespace) -> None:
    from ..dicom.segmentations import write_box_seg
    from ..scan.boxes import enclosing, grown

    if options.paste_back is not None:
        _paste(options)
        return
    if options.structures is None and options.examples is None and options.library is None:
        raise AnatomicalEmbeddingError(
            "no structure was named; add --structures, such as --structures liver,spleen."
        )
    console.check_folder(options.output)
    scans = Scans(options)
    model = console.open_model(options)
    finder = open_finder(
        model, options.recall, options.structures, options.library, options.examples
    )
    console.make_folder(options.output)
    inputs = [*scans.paths, *(options.examples.iterdir() if options.examples else ())]
    rows: list[list[Any]] = []
    written = []
    used_names: set[str] = set()
    for path, name, volume, embedding in scans.embedded(model):
        with scans.skipping():
            structures = finder.find(embedding)
            boxes = {n: box.box_ras for n, box in structures.items() if box.box_ras is not None}
            if not boxes:
                raise AnatomicalEmbeddingError(
                    f"{path}: shows none of the chosen structures; choose other structures."
                )
            missing = " ".join(n for n in structures if n not in boxes)
            # end of a crop's name -> the structures in the crop
            groups = {"crop": list(boxes)}
            if options.separate:
                groups = {n: [n] for n in boxes}
            cropped = {}
            for end, members in groups.items():
                box = grown(enclosing([boxes[n] for n in members]), np.full(6, options.margin_mm))
                unique = free_name(_file_name(f"{name}_{end}"), used_names)
                used_names.add(unique.casefold())
                output = options.output / f"{unique}.nii.gz"
                console.refuse_overwriting(inputs, [output])
                crop, size = _write_crop(volume, box, options.spacing, output)
                cropped[end] = crop.bounds_ras
                rows.append([path, str(output), " ".join(members), *size, missing])
            if scans.series is not None:
                seg = options.output / f"{_file_name(name)}_crop.seg.dcm"
                write_box_seg(cropped, volume.shape, volume.ijk_to_ras, scans.series, seg)
                written.append(seg)
    written += scans.write_table("crops", COLUMNS, rows)
    table = [[Path(row[1]).name, " x ".join(map(str, row[3:6])), *row[6:]] for row in rows]
    header = ["crop", "voxels", "scan / crop", "missing"]
    scans.finish({"crops": console.as_records(COLUMNS, rows)}, (header, table), written)


def _paste(options: argparse.Namespace) -> None:
    """Resample each label map of a crop to the voxels of the whole scan, and write the result to the output folder."""
    from SimpleITK import GetArrayViewFromImage

    from ..scan.cropping import paste_back
    from ..scan.image_files import display_name, image_suffix, read_image, write_image
    from ..structures.label_files import list_of_names

    source = options.paste_back
    if not source.exists():
        raise AnatomicalEmbeddingError(
            f"{source}: no such file or folder; check the path after --paste-back."
        )
    results = [source]
    if source.is_dir():
        results = [path for path in sorted(source.iterdir()) if image_suffix(path)]
    console.check_folder(options.output)
    scans = Scans(options)
    written = []
    console.make_folder(options.output)
    for path, name, volume in scans.read():
        with scans.skipping():
            scan_results = results
            if source.is_dir() or len(scans.sources) > 1:
                scan_results = [
                    result
                    for result in results
                    if _scan_name(display_name(result), scans.sources) == name
                ]
            if not scan_results:
                raise AnatomicalEmbeddingError(
                    f"{path}: {source} has no label map of this scan; the label map's name must start with {name}_."
                )
            for result in scan_results:
                output = options.output / f"{display_name(result)}.nii.gz"
                console.refuse_overwriting([*scans.paths, *results], [output])
                pasted = paste_back(read_image(result)[0], volume, result)
                write_image(pasted, output)
                written.append(output)
                if scans.series is not None:
                    stem = display_name(result).removesuffix(".seg")
                    seg = options.output / f"{stem}.seg.dcm"
                    labels = GetArrayViewFromImage(pasted)
                    names_file = list_of_names(result)
                    _write_pasted(labels, volume, names_file, scans.series, seg)
                    written.append(seg)
    scans.finish({}, None, written)


def _write_pasted(
    labels: np.ndarray, volume: Volume, names_file: Path, series: SourceSeries, path: Path
) -> None:
    """Write labels (k, j, i) as a DICOM SEG. If `names_file` does not exist, the names are "label 1", "label 2" ..."""
    from ..dicom.segmentations import write_label_seg
    from ..scan.label_map import LabelMap
    from ..structures.label_files import canonical_names, read_texts

    texts = read_texts(names_file) if names_file.exists() else {}
    canonical_names(texts, names_file)  # refuses a name that two labels have
    values = np.unique(labels[labels > 0])
    names = {
        texts.get(int(value), f"label {value:g}"): n for n, value in enumerate(values, start=1)
    }
    # each label becomes its place in `values`, from 1; 0 stays 0
    numbers = np.searchsorted(values, labels, "right")
    write_label_seg(LabelMap(numbers, volume.ijk_to_ras, names or {"label": 1}), series, path)


def _scan_name(crop_name: str, scan_names: Iterable[str]) -> str | None:
    """Return the scan of a crop: the longest scan name with which the name of the crop begins, or None."""
    begin = f"{_file_name(crop_name)}_"
    matches = [name for name in scan_names if begin.startswith(f"{_file_name(name)}_")]
    return max(matches, key=len, default=None)


def _file_name(name: str) -> str:
    """Return a name with only letters, digits, -, _ and ., which does not begin with a point."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name).lstrip(".")


def _write_crop(
    volume: Volume, box: np.ndarray, spacing: tuple[float, float, float] | None, output: Path
) -> tuple[Volume, list[float]]:
    """Write the part of `volume` in `box` (RAS mm) to a file.

    Returns the crop and four numbers: the crop's size in voxels along i, j and k, then the volume of the scan divided
    by the volume of the crop.
    """
    from ..scan.cropping import crop_resampled, crop_voxels

    clipped = np.clip(box, *volume.bounds_ras)
    crop = (
        crop_voxels(volume, clipped)
        if spacing is None
        else crop_resampled(volume, clipped, spacing)
    )
    crop.write(output)
    scan_mm3 = np.prod(volume.shape) * np.prod(volume.spacing)
    crop_mm3 = np.prod(crop.shape) * np.prod(crop.spacing)
    return crop, [*crop.shape[::-1], round(float(scan_mm3 / crop_mm3), 2)]


def _spacing(text: str) -> tuple[float, float, float]:
    """Convert the argument X,Y,Z to three voxel sizes, mm."""
    with suppress(ValueError):
        x, y, z = map(float, text.split(","))
        if all(MIN_SPACING_MM <= size <= MAX_SPACING_MM for size in (x, y, z)):
            return x, y, z
    raise argparse.ArgumentTypeError(
        f"{text!r} is not a voxel size; give three sizes of {MIN_SPACING_MM:g} to {MAX_SPACING_MM:g} mm, such as 1,1,2"
    )
