#!/usr/bin/env python3
"""Whether two versions of the program give the same answers: run every command before a change and after it.

    python Testing/benchmarks/same_answers.py run DATA OUT
    python Testing/benchmarks/same_answers.py compare BEFORE AFTER

DATA is the folder of the development scans, with `dev/` and `xray/`. `run` writes the results of each command to a
folder of OUT. `compare` prints every difference of more than 0.05 mm (or 0.05 of another number) and of any text.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import SimpleITK as sitk

TOLERANCE = 0.05
# these change from run to run, or name a folder
UNSTABLE = ("seconds", "path", "tracking", "created", "version", "speed")
SAME_PATIENT = ("elastix_lung_baseline", "elastix_lung_followup")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(required=True)
    for step, names in ((run, ("data", "out")), (compare, ("before", "after"))):
        command = steps.add_parser(step.__name__)
        command.set_defaults(step=step)
        for name in names:
            command.add_argument(name, type=Path)
    options = vars(parser.parse_args())
    options.pop("step")(*options.values())


def run(data: Path, out: Path) -> None:
    """Run the commands on scans of DATA, with the results in OUT."""
    inputs = out / "inputs"
    inputs.mkdir(parents=True)
    write_inputs(data, inputs)
    for name, arguments in commands(data / "dev", inputs, out):
        print(name, flush=True)
        result = subprocess.run(
            [sys.executable, "-m", "AnatomicalEmbedding", *map(str, arguments)],
            capture_output=True,
            text=True,
        )
        (out / name).mkdir(exist_ok=True)
        (out / name / "exit.json").write_text(json.dumps(result.returncode))
        if result.returncode not in (0, 1):
            print(result.stderr[-2000:])
        if "-o" not in arguments:
            (out / name / "output.txt").write_text(result.stdout)


def write_inputs(data: Path, inputs: Path) -> None:
    """Write points of scans, two films, and folders with links to a few scans."""
    dev = data / "dev"
    for name in ("ircad_p01", "ircad_p17", "kbp_pt_4", "waw0697_eqp"):
        write_centres(dev / f"{name}.seg.nii.gz", inputs / f"{name}.csv")
    landmarks = json.loads((dev / f"{SAME_PATIENT[0]}.landmarks.json").read_text())["points"]
    write_points(inputs / "lung.csv", landmarks)
    films = np.load(data / "xray" / "jsrt170.npz")
    images = films["images"]
    for number in range(2):
        sitk.WriteImage(sitk.GetImageFromArray(images[number]), str(inputs / f"film{number}.png"))
    rows = [
        f"P-{n},{x},{y}"
        for n, (x, y) in enumerate(np.array([[0.3, 0.4], [0.5, 0.5], [0.7, 0.6]]) * images.shape[1])
    ]
    (inputs / "film.csv").write_text("\n".join(["label,x,y", *rows]) + "\n")
    for folder, names in {
        "heads": ("kbp_pt_4", "kbp_pt_34"),
        "mixed": ("ircad_p01", "kbp_pt_60", "segthor_05"),
    }.items():
        (inputs / folder).mkdir()
        for name in names:
            for path in dev.glob(f"{name}.*"):
                (inputs / folder / path.name).symlink_to(path.resolve())


def write_centres(labels: Path, path: Path) -> None:
    """Write the centres of the labels of a label map as points."""
    image = sitk.ReadImage(str(labels))
    shapes = sitk.LabelShapeStatisticsImageFilter()
    shapes.Execute(sitk.Cast(image, sitk.sitkUInt16))
    lps = {str(label): np.array(shapes.GetCentroid(label)) for label in shapes.GetLabels()}
    write_points(path, {label: centre * (-1, -1, 1) for label, centre in lps.items()})


def write_points(path: Path, points_ras: dict[str, Any]) -> None:
    """Write named points, RAS mm, as a table that `anatemb match` reads."""
    rows = [f"{label},{r:.3f},{a:.3f},{s:.3f}" for label, (r, a, s) in points_ras.items()]
    path.write_text("\n".join(["label,r,a,s", *rows]) + "\n")


def commands(dev: Path, inputs: Path, out: Path) -> Iterator[tuple[str, list]]:
    """Give the name of each run and its arguments."""

    def scan(name: str) -> Path:
        return dev / f"{name}.nii.gz"

    def written(name: str, *arguments: Any) -> tuple[str, list]:
        return name, [*arguments, "-o", out / name]

    trunk = [
        scan("ircad_p01"),
        inputs / "ircad_p01.csv",
        scan("ircad_p17"),
        scan("ts_example"),
        scan("mirp_LUNG1-001"),
    ]
    lungs = [scan(SAME_PATIENT[0]), inputs / "lung.csv", scan(SAME_PATIENT[1])]
    film = inputs / "film0.png"
    other_film = inputs / "film1.png"
    width = ("--film-width-mm", "358")
    point = "--point=" + (inputs / "ircad_p17.csv").read_text().splitlines()[1].partition(",")[2]
    yield written("match", "match", *trunk)
    yield written("match-fast", "match", *trunk, "--effort", "fast")
    yield written("match-coordinates", "match", *trunk, "--effort", "coordinates")
    yield written(
        "match-heads", "match", scan("kbp_pt_4"), inputs / "kbp_pt_4.csv", scan("kbp_pt_34")
    )
    yield written("match-one-patient", "match", *lungs, "--same-patient")
    yield written(
        "match-phases",
        "match",
        scan("waw0697_eqp"),
        inputs / "waw0697_eqp.csv",
        scan("waw0697_ap"),
        "--same-patient",
    )
    yield written("match-strangers", "match", *trunk[:3], "--same-patient")
    yield written("match-films", "match", film, inputs / "film.csv", other_film, *width)
    yield written("match-ct-film", "match", *lungs[:2], film, *width)
    yield written(
        "match-film-ct", "match", film, inputs / "film.csv", scan("mirp_LUNG1-001"), *width
    )
    yield written("locate", "locate", scan("ircad_p17"), scan("kbp_pt_34"))
    yield written("find", "find", "12th rib on the right", scan("ircad_p17"), scan("ts_example"))
    yield "name", ["name", scan("ircad_p17"), point, "--json"]
    yield written("levels", "levels", scan("ircad_p17"), scan("mirp_LUNG1-001"))
    yield written("crop", "crop", scan("ircad_p17"), "--structures", "liver,left kidney")
    for kind in ("rigid", "affine", "deformable"):
        yield written(
            f"register-{kind}", "register", scan("ircad_p17"), scan("ircad_p01"), "--kind", kind
        )
    yield written("segment-train", "segment", "train", inputs / "heads", "--steps", "40")
    yield written(
        "segment-run", "segment", "run", scan("kbp_pt_82"), "--model", out / "segment-train"
    )
    yield written("audit", "audit", inputs / "mixed")
    yield written("followup", "followup", *lungs, "--date", "2020-01-01", "--date", "2020-06-01")
    yield "cohort-run", ["cohort", "run", out / "store", inputs / "mixed"]
    yield written("cohort-find", "cohort", "find", out / "store", "left kidney")
    yield written(
        "cohort-like", "cohort", "find", out / "store", "--like", scan("ircad_p17"), point
    )
    yield written("cohort-export", "cohort", "export", out / "store", "--structures", "liver,heart")
    yield "evaluate-landmarks", ["evaluate", "landmarks", inputs / "heads", "--json"]
    yield "evaluate-boxes", ["evaluate", "boxes", "--library", inputs / "heads", "--json"]


def compare(before: Path, after: Path) -> None:
    """Print the differences of two folders of results. Ends with exit code 1 if there are any."""
    paths = [{path.relative_to(root) for path in files(root)} for root in (before, after)]
    lines = [f"{path}: only in one folder" for path in sorted(paths[0] ^ paths[1])]
    for path in sorted(paths[0] & paths[1]):
        contents = [read(root, path) for root in (before, after)]
        lines += [f"{path}: {line}" for line in differences(*contents)]
    print(*lines or ["no difference"], sep="\n")
    sys.exit(bool(lines))


def files(root: Path) -> Iterator[Path]:
    kinds = (".csv", ".json", ".txt", ".gz", ".nrrd", ".h5")
    for path in root.rglob("*"):
        inside = path.relative_to(root).parts
        if path.is_file() and path.suffix in kinds and inside[0] not in ("inputs", "store"):
            yield path


def read(root: Path, name: Path) -> Any:
    """Return the content of a file in `root` as numbers and text, without the path of `root`."""
    path = root / name
    if path.suffix in (".csv", ".json", ".txt"):
        text = path.read_text().replace(str(root), "")
        if path.suffix == ".csv":
            return list(csv.DictReader(text.splitlines()))
        return json.loads(text) if text.lstrip()[:1] in ("{", "[") else text.splitlines()
    if path.suffix == ".h5":
        transform = sitk.ReadTransform(str(path))
        return [
            list(transform.TransformPoint((x, 0.0, z)))
            for x in (-60.0, 60.0)
            for z in (-100.0, 100.0)
        ]
    return sitk.GetArrayFromImage(sitk.ReadImage(str(path)))


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Give a line about each difference of two values that `read` returned."""
    if any(word in where.rpartition(".")[2] for word in UNSTABLE):
        return
    if isinstance(one, np.ndarray):
        if (
            one.shape != other.shape
            or np.mean(np.abs(one - other.astype(float)) > TOLERANCE) > 1e-4
        ):
            yield f"{where} voxels differ"
    elif isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differences(one.get(key), other.get(key), f"{where}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from differences(a, b, f"{where}[{number}]")
    elif not is_same(one, other):
        yield f"{where} {one!r} != {other!r}"


def is_same(one: Any, other: Any) -> bool:
    try:
        return abs(float(one) - float(other)) <= TOLERANCE
    except (TypeError, ValueError):
        return one == other


if __name__ == "__main__":
    main()
