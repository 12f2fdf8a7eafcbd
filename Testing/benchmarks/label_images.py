"""Make artificial CTs from label maps. They are written as a folder of labelled scans.

python Testing/benchmarks/label_images.py LABELMAPS -o FOLDER [--every 6] [--seed 77]

The commands `anatemb calibrate` and `anatemb structures build` can read this folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from AnatomicalEmbedding.training.label_frames import place
from AnatomicalEmbedding.training.label_images import SUFFIX, LabelledBody, write_label_image


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("maps", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument(
        "--every", type=int, default=6, help="of the maps with few structures, one in so many"
    )
    parser.add_argument(
        "--seed", type=int, default=77, help="of the images: training counts from 0"
    )
    options = parser.parse_args()
    bodies = [LabelledBody.read(path) for path in sorted(options.maps.glob("*" + SUFFIX))]
    placement = place({body.name: body.points for body in bodies})
    bodies = [body for body in bodies if body.name in placement.maps]
    few = [body for body in bodies if len(body.names) <= 20]
    for body in [*few[:: options.every], *(body for body in bodies if len(body.names) > 20)]:
        image = write_label_image(body, placement, options.seed, options.output)
        print(f"wrote {body.name}: {image.phase}, {len(body.points)} whole structures", flush=True)


if __name__ == "__main__":
    main()
