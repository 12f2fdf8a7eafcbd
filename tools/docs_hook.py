"""mkdocs hook: pictures of Resources/. Pages name them by their path in the repository, so that they show there too."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {"Screenshots": "screenshots", "Icons": "assets"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pictures to the site."""
    for folder, name in FOLDERS.items():
        for path in sorted((ROOT / "Resources" / folder).iterdir()):
            files.append(File.generated(config, f"{name}/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to Resources/Screenshots lead to the copies of the site."""
    up = "../" * page.file.src_uri.count("/")
    return re.sub(r"\((?:\.\./)+Resources/Screenshots/", f"({up}screenshots/", markdown)
