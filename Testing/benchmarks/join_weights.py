"""One network of two: all of the first weights, and the descriptor heads of the second where the first has none.

    python Testing/benchmarks/join_weights.py COORDINATES DESCRIPTORS -o FILE.safetensors

Coordinates train twice as fast without descriptors; the descriptors of the weights they started from still fit, and a
few hundred steps with optimiser.descriptors_only fit them again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from AnatomicalEmbedding.embedding.models.registry import find_weights, write_weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("coordinates", help="weights, by name or file")
    parser.add_argument("descriptors", help="weights of the same network with descriptor heads")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    first, second = find_weights(options.coordinates), find_weights(options.descriptors)
    state = second.network.state_dict() | first.network.state_dict()
    second.network.load_state_dict(state)
    about = {key: value for key, value in first.card.items() if key not in ("name", "network")}
    write_weights(second.network, options.output, options.output.stem, about)


if __name__ == "__main__":
    main()
