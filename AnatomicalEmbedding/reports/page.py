"""What all pages share: their templates, the packages they need, and the versions at their foot."""

from __future__ import annotations

import platform
from importlib import metadata, resources
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ..errors import AnatomicalEmbeddingError

if TYPE_CHECKING:
    import jinja2

_ENGINE = __package__.rsplit(".", 1)[0]


def check_packages() -> None:
    """Raise AnatomicalEmbeddingError when pillow or jinja2 is missing: before long work, not after it."""
    load_page("reports/page_style.css.j2")
    if find_spec("PIL") is None:
        raise AnatomicalEmbeddingError(
            'the report needs pillow, which is not installed; run: pip install "AnatomicalEmbedding[report]".'
        )


def load_page(name: str) -> jinja2.Template:
    """A page template, by its path in the engine; unknown names in it are errors, values are escaped.

    Raises AnatomicalEmbeddingError when jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise AnatomicalEmbeddingError(
            'the report needs jinja2, which is not installed; run: pip install "AnatomicalEmbedding[report]".'
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_page_source),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def _page_source(name: str) -> str:
    return resources.files(_ENGINE).joinpath(name).read_text(encoding="utf-8")


def package_versions() -> str:
    """What made a page, for its foot."""
    versions = []
    for package in ("AnatomicalEmbedding", "torch"):
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:  # the engine run from a source folder, as inside an extension
            continue
    return ", ".join([*versions, f"Python {platform.python_version()}"])
