"""Double of slicer.i18n: texts are not translated."""


def tr(text: str) -> str:
    """The text itself; like the original it takes a plain string and nothing else."""
    if not isinstance(text, str):
        raise TypeError(f"tr() takes a string, not {text!r}")
    return text


def translate(context: str, text: str) -> str:
    """The text itself; the context names the class that owns the translation."""
    if not isinstance(context, str):
        raise TypeError(f"translate() takes a context string, not {context!r}")
    return tr(text)
