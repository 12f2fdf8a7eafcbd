"""anatemb crop: scans cut down to structures before segmentation, with a stated recall."""

import argparse
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ..errors import AnatomicalEmbeddingError
from ..files import free_name
from ..scan.checks import MAX_SPACING_MM, MIN_SPACING_MM
from .box_options import BoxFinder, add_box_options, finish, note_failure, read_all
from .console import (
    check_folder,
    check_kept,
    complete,
    find_scans,
    make_folder,
    print_json,
    print_table,
    say,
    write_table,
)

COLUMNS = ("scan", "crop", "structures", "voxels_i", "voxels_j", "voxels_k", "volume_ratio", "missing")
_TABLE_NAME = "crops.csv"


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "crop",
        help="cut scans down to organs, with a stated recall",
        description="Cuts every SCAN down to the boxes of the chosen structures, grown for the chosen recall, "
        "and writes NIfTI files. Voxels are kept as they are unless --spacing is given; boxes are clipped to the scan. "
        "A scan that cannot be read, or shows none of the structures, is reported and skipped.",
    )
    add_box_options(parser)
    add = parser.add_argument
    add("--separate", action="store_true", help="one file for each structure, not one around all")
    add("--margin-mm", type=float, default=0.0, metavar="MM", help="further mm on every side")
    add("--spacing", metavar="X,Y,Z", help="resample to voxels of this size in mm; air (-1000 HU) beyond the scan")
    add(
        "--paste-back",
        type=Path,
        metavar="RESULT",
        help="the other way: label maps that another program made of crops (a file, or a folder of files that begin "
        "with the names of the scans) on the voxels of their whole SCAN",
    )
    complete(parser, run, series=True)


def run(options: argparse.Namespace) -> None:
    from ..scan.boxes import enclosing, grown

    if options.paste_back is not None:
        _paste(options)
        return
    if options.margin_mm < 0:
        raise AnatomicalEmbeddingError(f"--margin-mm {options.margin_mm:g}: must be 0 or more.")
    spacing = read_spacing(options.spacing)
    check_folder(options.output)
    scans = find_scans(options)
    finder, failed, rows = BoxFinder(options), [], []
    make_folder(options.output)
    examples = options.examples.iterdir() if options.examples else ()
    inputs, taken = [*(Path(source.path) for source in scans.values()), *examples], set()
    for path, name, volume, of in read_all(scans, failed):
        try:
            found = finder.locate(volume)
            here = {n: finder.box(located) for n, located in found.items() if located.status != "absent"}
            if not here:
                raise AnatomicalEmbeddingError(f"{path}: shows none of the chosen structures; nothing was cropped.")
            missing = " ".join(n for n in found if n not in here)
            whole = {f"{name}_crop": list(here)}
            for crop_name, members in ({f"{name}_{n}": [n] for n in here} if options.separate else whole).items():
                box = grown(enclosing([here[n] for n in members]), np.full(6, options.margin_mm))
                output = output_path(options.output, crop_name, taken, inputs)
                rows.append([path, str(output), " ".join(members), *write_crop(volume, box, spacing, output), missing])
        except AnatomicalEmbeddingError as error:
            note_failure(error, failed, of)
    if rows:
        write_table(options.output / _TABLE_NAME, COLUMNS, rows)
    if options.json:
        print_json({"crops": [dict(zip(COLUMNS, row, strict=True)) for row in rows], "skipped": failed})
    else:
        shown = [[Path(str(row[1])).name, " x ".join(map(str, row[3:6])), str(row[6]), str(row[7])] for row in rows]
        print_table(["crop", "voxels", "scan / crop", "missing"], shown)
        say(f"crops in {options.output}: {len(rows)}; scans skipped: {len(failed)}")
    finish(failed, rows)


def _paste(options: argparse.Namespace) -> None:
    """Write every label map of crops on the voxels of its scan."""
    from ..scan.cropping import paste_back
    from ..scan.image_files import display_name, image_suffix, read_image, write_image

    source = options.paste_back
    if not source.exists():
        raise AnatomicalEmbeddingError(f"{source}: no such file or folder; give what the other program wrote.")
    results = [p for p in sorted(source.iterdir()) if image_suffix(p)] if source.is_dir() else [source]
    check_folder(options.output)
    failed: list[str] = []
    written: list[str] = []
    scans = find_scans(options)
    make_folder(options.output)
    for path, name, volume, of in read_all(scans, failed):
        mine = [r for r in results if _owner(display_name(r), scans) == name] if of > 1 or source.is_dir() else results
        try:
            if not mine:
                raise AnatomicalEmbeddingError(
                    f"{path}: {source} holds no result for it; its name must begin with {name}_, as its crop's does."
                )
            for result in mine:
                output = options.output / f"{display_name(result)}.nii.gz"
                check_kept([*(Path(each.path) for each in scans.values()), *results], [output])
                write_image(paste_back(read_image(result)[0], volume, result), output)
                written.append(str(output))
        except AnatomicalEmbeddingError as error:
            note_failure(error, failed, of)
    if options.json:
        print_json({"files": written, "skipped": failed})
    else:
        for output in written:
            say(f"wrote {output}")
    finish(failed, written)


def _owner(result: str, names: Iterable[str]) -> str | None:
    """The scan whose crop a result was made of: the longest name with which the result's begins."""
    return max((name for name in names if f"{_safe(result)}_".startswith(f"{_safe(name)}_")), key=len, default=None)


def _safe(name: str) -> str:
    """A name for a file that other programs take too: without spaces and signs."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name).lstrip(".")


def output_path(folder: Path, name: str, taken: set[str], inputs: list[Path]) -> Path:
    """A file for a crop: its name made safe, not that of another crop. Raises where it would overwrite an input."""
    unique = free_name(_safe(name), taken)
    taken.add(unique.casefold())
    path = folder / f"{unique}.nii.gz"
    check_kept(inputs, [path])
    return path


def write_crop(volume, box: np.ndarray, spacing: tuple[float, float, float] | None, output: Path) -> list[float]:
    """Write one crop; its size in voxels, and how many times smaller than the scan it is."""
    from ..scan.cropping import crop_resampled, crop_voxels

    low, high = volume.bounds_ras
    clipped = np.stack([np.maximum(box[0], low), np.minimum(box[1], high)])
    if (clipped[1] <= clipped[0]).any():
        raise AnatomicalEmbeddingError(f"{volume.name or 'the scan'}: the box lies outside this scan, or is empty.")
    crop = crop_voxels(volume, clipped) if spacing is None else crop_resampled(volume, clipped, spacing)
    crop.write(output)
    ratio = np.prod(volume.shape) * np.prod(volume.spacing) / (np.prod(crop.shape) * np.prod(crop.spacing))
    return [*crop.shape[::-1], round(float(ratio), 2)]


def read_spacing(text: str | None) -> tuple[float, float, float] | None:
    if text is None:
        return None
    try:
        x, y, z = (float(part) for part in text.split(","))
    except ValueError:
        x = y = z = 0.0
    if not all(MIN_SPACING_MM <= size <= MAX_SPACING_MM for size in (x, y, z)):
        raise AnatomicalEmbeddingError(
            f"--spacing {text}: give three sizes of {MIN_SPACING_MM:g} to {MAX_SPACING_MM:g} mm, such as 1,1,2."
        )
    return x, y, z
