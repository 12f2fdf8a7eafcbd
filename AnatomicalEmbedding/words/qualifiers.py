"""Words around the name of a place: zones ("upper pole of"), relations ("posterior to") and denials ("no").

A word such as "no" before the name, or "not seen" after it, denies the subject of the clause. If nothing else is named
between the denial and the name, the place itself is denied ("no gallbladder", "the left kidney is absent").
Otherwise, a finding in the place is denied ("no hydronephrosis of the right kidney").
"""

from dataclasses import dataclass
from functools import lru_cache

from ..resources import read_rows
from .tokens import Words, word_set


@dataclass(frozen=True)
class Qualifier:
    """A part of a place ("upper part of"), or a relation to a place ("above").

    kind: "zone" for a part, or the relation: "above", "below", "before" (in front of), "behind", "medial", "lateral" or
    "around". detail: for a part, one or two values of `ZONES`.
    """

    kind: str
    detail: str = ""

    @property
    def text(self) -> str:
        """The words to show before the name of the place, such as "upper part of"."""
        if self.kind == "zone":
            return f"{self.detail} part of"
        phrases = {
            "before": "anterior to",
            "behind": "posterior to",
            "medial": "medial to",
            "lateral": "lateral to",
        }
        return phrases.get(self.kind, self.kind)


ZONES = {word: zone for zone, words, *_ in read_rows("Words/zones.csv") for word in words.split()}
ZONE_NOUNS = word_set(
    "pole poles third thirds half part portion aspect zone region end tip wall walls surface margin border limb "
    "quarter segment side area level section edge"
)
# Parts that the search cannot find. For "origin of the aorta" the answer is the aorta, with a remark on "origin".
PARTS = word_set(
    "origin ostium orifice apex base tip root bifurcation confluence junction insertion trunk branch artery vein duct "
    "nerve valve cusp leaflet septum wall arch hilum isthmus head neck body tail dome cortex medulla capsule lobe "
    "segment process crest shaft pedicle lamina tubercle condyle epicondyle stump pole corner fundus pelvis"
)
_RELATION_PHRASES = {
    "above": "superior to, cranial to, cephalad to, above",
    "below": "inferior to, caudal to, below, beneath, under",
    "before": "anterior to, ventral to",
    "behind": "posterior to, dorsal to, behind",
    "medial": "medial to",
    "lateral": "lateral to",
    "around": "adjacent to, next to, close to, around, near, surrounding, abutting",
}
# words of a phrase before a name -> where the text means a place, as seen from the named place
RELATIONS = {
    tuple(phrase.split()): relation
    for relation, phrases in _RELATION_PHRASES.items()
    for phrase in phrases.split(", ")
}
FINDING, PLACE = "finding", "place"
SEEN = word_set(
    "detected observed seen found identified distinguished noted present demonstrated visualized visualised evident "
    "selected encountered monitored followed"
)
_NO = word_set("no without not absent absence denies negative free neither nor")
# "free of" denies a finding, "free fluid" does not
_NEEDS = {"free": ("of", "from"), "negative": ("for",)}
_NOT_ONLY = word_set("only just merely solely")  # "not only the liver" denies nothing
_NOT = word_set("not n't")
_MISSING = word_set("absent missing removed resected")
TURNS = word_set("but however although except though while whereas ;")
VERBS = word_set(
    "is are was were has have had does do can cannot could may show shows showed demonstrate demonstrates contain "
    "contains contained reveal reveals revealed appear appears appeared remain remains measure measures measured "
    "exhibit exhibits seem seems lie lies harbors harbours"
)
_BEFORE_A_DENIAL = VERBS | {"be", "been", "there", "surgically", "congenitally"}
_RELATIVE = word_set("which that who where as")
_NEW_SUBJECT = word_set("a an there one another")
_CONTRASTS = word_set("with only instead rather yet")  # after a comma
_SILENT = word_set("of the a an its this that left right both any evidence visible definite")
# A place that follows one of these words is not the subject of the clause.
LEADING = word_set("of in within at on to from near around")
_FOLLOWING = frozenset(",:().;") | _BEFORE_A_DENIAL | SEEN | {"in", "on", "at"}
# Findings that are part of place names: "no pleural effusion" does not mean that a place is missing.
_FINDINGS = word_set("effusion hydrothorax pneumothorax hernia node")


def denied(words: Words, first: int, last: int, noun: bool) -> str:
    """Return PLACE if a clause denies a place, FINDING if the clause denies a finding in this place; else "".

    Args:
        words: the words of the sentence.
        first, last: indices of the first and the last word of the place's name.
        noun: False if the name is an adjective ("hepatic").
    """
    start, end = _clause(words, first, last)
    clause = words[start:end]
    name = range(first - start, last + 1 - start)
    names_place = noun and _FINDINGS.isdisjoint(words[first : last + 1])
    return _denied_before(clause, name, names_place) or _denied_behind(clause, name, names_place)


def _denied_before(words: Words, name: range, names_place: bool) -> str:
    """Return what a word such as "no" before a name denies: PLACE, FINDING or "".

    Args:
        words: the words of the clause.
        name: indices of the words of the name.
        names_place: False if the name cannot mean the place itself.
    """
    for n in range(name.start - 1, -1, -1):
        following = words[n + 1]
        needed = _NEEDS.get(words[n], (following,))
        if words[n] not in _NO or following in _NOT_ONLY or following not in needed:
            continue
        is_alone = set(words[n + 1 : name.start]) <= _SILENT | SEEN
        ends = name.stop == len(words) or words[name.stop] in _FOLLOWING
        return PLACE if names_place and is_alone and ends else FINDING
    return ""


def _denied_behind(words: Words, name: range, names_place: bool) -> str:
    """Return what "not seen" or "absent" behind a name denies: PLACE, FINDING or "". Arguments: as above."""
    before = [word for word in words[: name.start] if word not in _SILENT or word == "of"]
    may_be_subject = names_place and LEADING.isdisjoint(before[-1:])
    for n in range(name.stop, len(words)):
        is_subject = may_be_subject and set(words[name.stop : n]) <= _BEFORE_A_DENIAL
        if words[n] in _NOT and not SEEN.isdisjoint(words[n + 1 : n + 4]):
            return PLACE if is_subject else FINDING
        # directly after the name, the word may belong to the next noun
        if words[n] in _MISSING and is_subject and n > name.stop:
            return PLACE
    return ""


def _clause(words: Words, first: int, last: int) -> tuple[int, int]:
    """Return the index of the first word of the clause that contains the words `first` to `last`, and the index after
    its last word."""
    starts = _clause_starts(tuple(words))
    start = max(n for n in starts if n <= first)
    following = min((n for n in starts if n > last + 1), default=len(words) + 1)
    return start, following - 1  # without the word between the clauses, such as "but"


@lru_cache(maxsize=1)  # all names of a sentence ask for its clauses
def _clause_starts(words: tuple[str, ...]) -> list[int]:
    """Return the index of the first word of each clause of a sentence."""
    starts = [0]
    for n, word in enumerate(words):
        may_begin = word in (",", "and")
        if word in TURNS or (
            may_begin and _begins_clause(word, words[starts[-1] : n], words[n + 1 :])
        ):
            starts.append(n + 1)
    return starts


def _begins_clause(link: str, former: Words, words: Words) -> bool:
    """Return whether `words` begin with a clause of their own, instead of an item of a list in the clause `former`.

    A clause has a subject and a verb: "no lesion in the spleen, the liver shows a cyst". In "no lesion in the spleen,
    liver or kidneys is seen", the verb belongs to the former clause, which has no other verb.
    """
    if words[:1] == ("and",):
        words = words[1:]
    if link == "," and not _CONTRASTS.isdisjoint(words[:1]) and words[1:2] != ("or",):
        return True
    end = next((n for n, word in enumerate(words) if word == "," or word in TURNS), len(words))
    words = words[:end]
    verb = next((n for n, word in enumerate(words) if word in VERBS), 0)
    if not verb or not _RELATIVE.isdisjoint(words[:verb]):
        return False
    is_passive = not SEEN.isdisjoint(words[verb + 1 : verb + 4])
    if not is_passive or words[0] in _NEW_SUBJECT or words[0].isdigit():
        return True
    denial = max((n for n, word in enumerate(former) if word in _NO), default=0)
    return not VERBS.isdisjoint(former[denial:])
