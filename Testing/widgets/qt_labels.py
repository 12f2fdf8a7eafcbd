"""Return the text that a user reads in a label with rich text."""

import re
from html import unescape


def plain(rich: str) -> str:
    """The words alone, a line for each line."""
    return unescape(re.sub(r"<[^>]*>", "", re.sub(r"<br */?>", "\n", rich))).strip()


def shown(label) -> str:
    """The words of a label."""
    return plain(label.text)


def colour(rich: str) -> str:
    """The first colour in the text; "" where there is none."""
    found = re.search(r"color: *(#[0-9a-f]{6})", rich)
    return found[1] if found else ""
