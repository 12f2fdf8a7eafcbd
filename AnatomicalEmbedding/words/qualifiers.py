"""What words say about a place: a zone of it, or where another place lies from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Qualifier:
    """kind: "zone" (detail: one or two values of `ZONES`), or a relation: "above", "below", "before", "behind",
    "medial", "lateral" or "around".
    """

    kind: str
    detail: str = ""

    @property
    def text(self) -> str:
        """In words, before the name of the place."""
        if self.kind == "zone":
            return f"{self.detail} part of"
        said = {"before": "anterior to", "behind": "posterior to", "medial": "medial to", "lateral": "lateral to"}
        return said.get(self.kind, self.kind)


ZONES = {
    "upper": "upper", "superior": "upper", "cranial": "upper", "apical": "upper", "top": "upper", "high": "upper",
    "lower": "lower", "inferior": "lower", "caudal": "lower", "basal": "lower", "low": "lower", "bottom": "lower",
    "mid": "middle", "middle": "middle", "central": "middle", "interpolar": "middle",
    "anterior": "anterior", "ventral": "anterior", "front": "anterior",
    "posterior": "posterior", "dorsal": "posterior", "rear": "posterior",
    "medial": "medial", "inner": "medial", "lateral": "lateral", "outer": "lateral",
    "proximal": "proximal", "distal": "distal",
}  # fmt: skip
ZONE_NOUNS = frozenset([
    "pole", "third", "half", "part", "portion", "aspect", "zone", "region", "end", "tip", "wall", "surface",
    "margin", "border", "limb", "quarter", "segment", "side", "area", "level", "section", "edge"
])  # fmt: skip
# Parts of places that have no rule: an answer for the whole says that it took no account of them.
PARTS = frozenset([
    "origin", "ostium", "orifice", "apex", "base", "tip", "root", "bifurcation", "confluence", "junction",
    "insertion", "trunk", "branch", "artery", "vein", "duct", "nerve", "valve", "cusp", "leaflet", "septum", "wall",
    "arch", "hilum", "isthmus", "head", "neck", "body", "tail", "dome", "cortex", "medulla", "capsule", "lobe",
    "segment", "process", "crest", "shaft", "pedicle", "lamina", "tubercle", "condyle", "epicondyle", "stump", "pole",
    "corner",
])  # fmt: skip
# Words before a place that move the place meant next to it; the longest first.
RELATIONS: dict[tuple[str, ...], str] = {
    **{(word, "to"): "above" for word in ("superior", "cranial", "cephalad")},
    **{(word, "to"): "below" for word in ("inferior", "caudal")},
    **{(word, "to"): "before" for word in ("anterior", "ventral")},
    **{(word, "to"): "behind" for word in ("posterior", "dorsal")},
    **{(word, "to"): word for word in ("medial", "lateral")},
    **{(word, "to"): "around" for word in ("adjacent", "next", "close")},
    **{(word,): word for word in ("above", "below", "behind", "around")},
    **{(word,): "below" for word in ("beneath", "under")},
    **{(word,): "around" for word in ("near", "surrounding", "abutting")},
}
