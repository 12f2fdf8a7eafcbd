"""Settings of the extension that a scenario needs."""

from __future__ import annotations


def keep_no_maps() -> None:
    """Embed every scan anew: the scenario is about the time that this takes."""
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    ModuleSettings.setCacheLimitMb(0)
