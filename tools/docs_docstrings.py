"""griffe extension: docstrings here state each argument as `name: meaning`; show each on a line of its own."""

import re
from typing import Any

import griffe

_NAMES = re.compile(r"(^|(?<=\. ))([a-z_]\w*(?:, [a-z_]\w*)*): ")


class ArgumentLines(griffe.Extension):
    """Bold names of arguments, and a line break after a line that ends a sentence."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None and "Args:" not in obj.docstring.value:
            obj.docstring.value = "\n".join(
                _shown(line) for line in obj.docstring.value.split("\n")
            )


def _shown(line: str) -> str:
    if line.startswith((" ", ">", "*", "|")):  # code, lists and tables stay
        return line
    return _NAMES.sub(r"\1**\2**: ", line) + ("  " if line.endswith(".") else "")
