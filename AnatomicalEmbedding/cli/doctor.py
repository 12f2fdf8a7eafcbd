"""anatemb doctor: check the installation, measure its speed, and print the line that installs what is missing."""

import argparse
import platform
import time
from importlib.metadata import version

from .. import __version__
from ..errors import AnatomicalEmbeddingError
from ..files import file_sha256, parse_json
from ..installation.packages import (
    DISTRIBUTION,
    NUMPY_1,
    Requirement,
    list_requirements,
    numpy_is_too_new,
)
from ..resources import (
    default_weights,
    list_cards,
    missing_weights,
    resource,
    terms_of,
    weights_file,
)
from . import arguments, console

# of the synthetic scan that is embedded
_SEED = 71
_SPACING_MM = (3.0, 3.0, 3.0)
_COVERAGE_MM = (150.0, 450.0)


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "doctor",
        help="check packages, weights and device; measure the speed; show what is missing and what to type",
        description="Checks the packages, the weights and the device, and embeds a small synthetic scan. If something "
        "is missing, the command shows the line to type. Exit code 2: the program cannot run before you type it.",
    )
    arguments.complete(parser, run)


def run(options: argparse.Namespace) -> None:
    needed = list_requirements()
    problems = _package_problems([package for package in needed if not package.extra])
    facts: dict[str, object] = {
        "anatemb": __version__,
        "python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
    }
    for package in needed:
        if not package.extra and package.is_met:
            facts[package.name] = version(package.name)
    facts |= _optional_packages(needed)
    for name in list_cards():
        facts[f"weights {name}"] = _weights_state(name)
    terms = terms_of(resource("Orientation") / "ct.safetensors")
    facts["orientation network"] = terms or "terms are not stated"
    if not problems:
        try:
            facts |= _computing(options)
        except (AnatomicalEmbeddingError, ImportError, OSError) as error:
            problems.append(f"{error}")
    if options.json:
        console.print_json([facts | {"problems": problems}])
    else:
        width = max(map(len, facts))
        for name, value in facts.items():
            console.say(f"{name:<{width}}  {value}")
    if problems:
        raise AnatomicalEmbeddingError(" ".join(problems))


def _package_problems(needed: list[Requirement]) -> list[str]:
    """Return [a sentence with the line to type], or [] if all needed packages have the right version."""
    packages = [f'"{package.text}"' for package in needed if not package.is_met]
    if numpy_is_too_new():
        packages.append(f'"{NUMPY_1}"')
    if not packages:
        return []
    line = f"pip install {' '.join(packages)}"
    return [f"packages are missing or of the wrong version; type: {line}."]


def _optional_packages(needed: list[Requirement]) -> dict[str, object]:
    """Return for each group of optional packages whether it is installed, or the line to type."""
    states: dict[str, object] = {}
    for package in needed:
        group = f"extra {package.extra}"
        if package.extra and not package.is_met:
            states[group] = (
                f'{package.name} is missing; type: pip install "{DISTRIBUTION}[{package.extra}]"'
            )
        elif package.extra:
            states.setdefault(group, "installed")
    return states


def _weights_state(name: str) -> str:
    """Return whether weights are installed and unchanged, and their terms."""
    path = weights_file(name)
    state = "installed, default." if name == default_weights() else "installed."
    if not path.is_file():
        state = missing_weights(name).removeprefix(f"{name}: ")
    else:
        card = parse_json(path.with_suffix(".json").read_text(encoding="utf-8"))
        if file_sha256(path) != card.get("sha256"):
            state = "damaged: the SHA-256 is not that of the card; install the program again."
    return f"{state} {terms_of(path)}"


def _computing(options: argparse.Namespace) -> dict[str, object]:
    """Embed a synthetic scan. Returns the device, the memory limit and the measured time."""
    import torch

    from ..embedding.cache import MapCache, default_folder
    from ..embedding.device import memory_budget
    from ..phantom import make_phantom

    options.no_cache = True
    model = console.open_model(options)
    scan = make_phantom(_SEED, _SPACING_MM, coverage_mm=_COVERAGE_MM).volume
    start = time.perf_counter()
    console.embed(model, scan, options.json)
    seconds = time.perf_counter() - start
    gpu = f"{torch.cuda.get_device_name(model.device)}, " if model.device.type == "cuda" else ""
    k, j, i = scan.shape
    cache = MapCache(default_folder())
    return {
        "device": f"{model.device}, {gpu}threads: {torch.get_num_threads()}",
        "memory for one scan": f"{(model.budget_bytes or memory_budget(model.device)) / 2**30:.1f} GiB at most",
        "speed": f"a synthetic scan of {i} x {j} x {k} voxels was embedded in {seconds:.1f} s",
        "cache": f"{cache.folder}: {cache.count()} maps, {cache.size_bytes() / 2**20:.1f} MB",
    }
