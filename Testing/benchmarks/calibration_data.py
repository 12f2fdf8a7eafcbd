"""Make a folder of scans for `anatemb calibrate`: links to scans, and landmarks derived from their outlines.

python Testing/benchmarks/calibration_data.py FOLDER... -o OUTPUT

`anatemb calibrate` matches these landmarks, for example the carina, between different patients. A label image made by
`label_images.py` is a labelled scan, too.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from evaluations.outline_points import derive_landmarks

from AnatomicalEmbedding.structures.labelled_scans import list_scans, load_case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="scans, with or without labels")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for folder in options.folders:
        for file in sorted(folder.iterdir()):
            if not (options.output / file.name).exists():
                (options.output / file.name).symlink_to(file.resolve())
        for scan in list_scans(folder):
            case = load_case(scan)
            if case is None or case.labels is None or case.landmarks:
                continue
            points = {name: point.tolist() for name, point in derive_landmarks(case.label_map).items()}
            if points:
                content = {"frame": "RAS", "unit": "mm", "points": points}
                (options.output / f"{case.id}.landmarks.json").write_text(json.dumps(content, indent=1))
            print(f"{case.id}: {', '.join(points) or 'no landmark'}", flush=True)


if __name__ == "__main__":
    main()
