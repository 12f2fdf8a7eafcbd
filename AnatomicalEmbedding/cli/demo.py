"""anatemb demo: make two synthetic patients, match points between them, and compare the answers with the truth."""

import argparse
from pathlib import Path

import numpy as np

from ..errors import AnatomicalEmbeddingError, PointsError
from .arguments import add_path, complete
from .console import as_files, embed, make_folder, open_model, print_json, print_table, say
from .match import Answer, write_answers

TEMPLATE_SEED = 20_001
TARGET_SEED = 20_002
TEMPLATE_MM = (120.0, 600.0)  # from the sacrum to the neck
_POINTS = "template.mrk.json"
_RESULTS = ("template.nii.gz", "target.nii.gz", "target.mrk.json", "matches.csv", "report.html")
# from above the iliac crests to the neck, so that the point on a crest is absent
TARGET_MM = (190.0, 600.0)
POINT_NAMES = (
    *("carina", "aortic_arch_top", "heart_apex"),
    *("liver_dome", "kidney_left_centre", "kidney_right_centre", "spleen_centre"),
    *("vertebrae_L3", "iliac_crest_left", "lung_apex_right"),
)


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "demo",
        help="match named points between two synthetic patients, and show the errors",
        description="Makes two synthetic patients, finds points of the first patient in the second, and compares the "
        "answers with the true points, which are known exactly. No data are needed.",
    )
    help_text = "folder for results (default: demo-output)"
    add_path(parser, "-o --output", "DIR", help_text, default=Path("demo-output"))
    complete(parser, run)


def run(options: argparse.Namespace) -> None:
    from ..matching.match import match
    from ..phantom import SPACING_MM, make_phantom
    from ..scan.points import PointList, write_markups
    from ..scan.volume import Volume

    _check_folder(options.output)
    say("Making two synthetic patients ...", options.json)
    template = make_phantom(TEMPLATE_SEED, SPACING_MM, coverage_mm=TEMPLATE_MM)
    target = make_phantom(TARGET_SEED, SPACING_MM, coverage_mm=TARGET_MM)
    names = [name for name in POINT_NAMES if name in template.points_ras]
    points = PointList(tuple(names), np.array([template.points_ras[name] for name in names]))
    truth = np.array([target.points_ras.get(name, np.full(3, np.nan)) for name in names])
    model = open_model(options)
    say("Embedding both scans and matching the points ...", options.json)
    # written first, since `_check_folder` looks for it
    write_markups(options.output / _POINTS, points, name="template")
    paths = options.output / "template.nii.gz", options.output / "target.nii.gz"
    for path, patient in zip(paths, (template, target), strict=True):
        patient.volume.write(path)
    # read from the files, so that the other commands give the same answers for these files
    volumes = [Volume.read(path) for path in paths]
    template_map, target_map = (embed(model, volume, options.json) for volume in volumes)
    matches = match(template_map, points.points_ras, target_map)
    answer = Answer(str(paths[1]), "target", matches, volumes[1])
    written = write_answers(options.output, volumes[0], points, [answer], model.name)
    errors = np.linalg.norm(matches.points_ras - truth, axis=1)
    present = np.isfinite(errors)
    median = float(np.median(errors[present]))
    answers = []
    rows = []
    for n, label in enumerate(names):
        place = matches.points_ras[n].round(1).tolist()
        status = None if matches.status is None else str(matches.status[n])
        error = float(errors[n].round(1)) if present[n] else None
        answers.append({"label": label, "found_ras": place, "status": status, "error_mm": error})
        rows.append([label, *place, status or "", "not there" if error is None else f"{error:.1f}"])
    if options.json:
        results = {"points": answers, "median_error_mm": round(median, 2)}
        print_json(results | as_files(written))
        return
    print_table(["point", "found R", "A", "S", "status", "error mm"], rows)
    say(
        f"\nmedian error {median:.1f} mm over {present.sum()} points, compared with the known true places"
    )
    say(f"open {written[-1]}")
    say(
        f"scans and points to open in Slicer: {options.output}/template.nii.gz, target.nii.gz, *.mrk.json"
    )


def _check_folder(folder: Path) -> None:
    """Make the output folder. Raises AnatomicalEmbeddingError if the demo would overwrite a file in this folder that
    was not written by a demo."""
    from ..scan.points import read_points

    make_folder(folder)
    path = folder / _POINTS
    try:
        from_demo = path.exists() and set(read_points(path).labels) <= set(POINT_NAMES)
    except PointsError:
        from_demo = False
    existing = [name for name in (_POINTS, *_RESULTS) if (folder / name).exists()]
    if existing and not from_demo:
        raise AnatomicalEmbeddingError(
            f"{folder / existing[0]}: would be overwritten by results; choose another output folder."
        )
