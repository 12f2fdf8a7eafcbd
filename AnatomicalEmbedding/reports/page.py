"""Functions for all report pages: load and fill HTML templates, and check that the required packages are installed."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from ..errors import require
from ..files import write_text

if TYPE_CHECKING:
    import jinja2

_ENGINE = Path(__file__).parents[1]


def check_packages() -> None:
    """Raise AnatomicalEmbeddingError if pillow or jinja2 is not installed. Call this before a long computation."""
    load_page("reports/page_style.css.j2")
    require("PIL", "pillow", "the report needs")


def load_page(name: str) -> jinja2.Template:
    """Load a page template. name: the template's path inside the package, such as "reports/boxes.html.j2".

    The template escapes HTML in values. To fill it, each of its variables needs a value. If jinja2 is not installed,
    AnatomicalEmbeddingError is raised.
    """
    jinja2 = require("jinja2", "jinja2", "the report needs")
    loader = jinja2.FileSystemLoader(_ENGINE)
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def fill_page(path: str | Path, template: str, /, **values: object) -> Path:
    """Fill a page template with values, and write the page to `path`. template: as for `load_page`. Returns `path`.

    Each page can also show the version of the program, and when it was `created`.
    """
    created = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
    write_text(path, load_page(template).render(values, version=__version__, created=created))
    return Path(path)
