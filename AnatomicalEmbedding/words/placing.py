"""Find where a named place is in one scan, and name the places at a point of the scan."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..anatomy.terms import load_terms
from ..embedding.map import EmbeddingMap
from ..embedding.spine_reading import spine_ends
from ..errors import PointsError
from ..matching.status import CERTAIN_PLACE, OUTSIDE, PARTLY, UNCERTAIN, decide_place
from ..scan.geometry import slices_between
from ..scan.points import PointList, as_points
from ..scan.volume import Volume
from ..spine.levels import level_sentence
from ..spine.structures import doubtful_levels, spine_place
from .atlas import Atlas, Occupancy, frame_index, shipped_atlas
from .derived_places import blob, field_by_recipe, qualify, surety
from .grid_weights import NOWHERE, Cell, Field, Grid, as_cell, make_scan_grid, middle_of_likeliest
from .occupancy import (
    among_others,
    between_bounds,
    read_occupancy,
    sharpened,
    tissue_likelihood,
    total_odds,
    weighed,
)
from .phrases import Mention
from .presence import Presence, frame_fields, occupancy_of
from .qualifiers import Qualifier
from .ribs import Ribs, find_ribs
from .tokens import word_set

_PEAK_MM = 2.5  # standard deviation of the blur of the chances before the best point is chosen
_REGION_MM = 4.0  # standard deviation of the blur of regions, so that regions of 90 % contain 90 % of the true places
_TRUST = 0.85  # factor for a probability that was not compared with measured errors
# Computed chance -> fraction of points that were right, measured with atlases that did not contain the tested patients.
_CHANCE, _RIGHT = (0.0, 0.4, 0.7, 0.9, 1.0), (0.25, 0.4, 0.8, 0.89, 0.98)
_NAMED = 0.05  # least chance of a place that `name_at` returns
_DISC_MM = 7.0  # standard deviation of a disc's blob; by hand: about its height
# largest distance to denser bone; gain in HU needed for each square mm of distance
_CELL_MM, _FIRMER_HU = 4.0, 5.0
_AORTA = "aorta"  # all arteries have the CT numbers of the aorta
_PEAK = 0.6  # largest value of a blob (a Gaussian field) after sampling in cells and averaging
_PROSTATE, _UTERUS = "prostate", "uterus"  # the largest organ that only men or only women have
_OF_MEN = word_set(
    "prostate seminal_vesicle_left seminal_vesicle_right testis_left testis_right penis"
)
_OF_WOMEN = word_set("uterus cervix_uteri vagina ovary_left ovary_right adnexa_left adnexa_right")
# place that only one sex has -> the largest organ of this sex, the largest organ of the other sex
_SEX_ORGANS = dict.fromkeys(_OF_MEN, (_PROSTATE, _UTERUS)) | dict.fromkeys(
    _OF_WOMEN, (_UTERUS, _PROSTATE)
)
_SEX_REMARK = "not known whether the patient has a prostate or a uterus"
_EITHER = 0.5  # chance of each sex if the scan does not show the sex


@dataclass(frozen=True, eq=False)
class Place:
    """Where a place is in one scan.

    Args:
        name: name of the place, such as kidney_left. title: name to display.
        status: "inside", "partly" (inside) or "outside" the scan; "uncertain" if the probability is below a half, or if
            the point may be in the next vertebra or rib.
        side: if the place is partly or completely outside the scan, the side of the scan where the missing part lies.
        probability: chance that the point lies in the place; with status "outside", chance that this status is right.
        point_ras: (3,) RAS mm, the best point; None with status "outside".
        region: for each cell of `grid`, the chance that the cell belongs to the place.
        negated: whether the text denies the place, or a finding in the place.
        levels: if the level is uncertain, the two possible levels ("L3 or L4"); else "".
        remark: text to display, or "".
    """

    name: str
    title: str
    status: str
    side: str
    probability: float
    point_ras: np.ndarray | None
    region: Field = dataclasses.field(repr=False)
    grid: Grid = dataclasses.field(repr=False)
    negated: bool = False
    levels: str = ""
    remark: str = ""

    @property
    def doubt(self) -> str:
        """A sentence that says that the level is uncertain; "" if the level is certain."""
        return level_sentence(self.levels)

    def least_chance(self, share: float) -> float:
        """Return a threshold: the cells with at least this chance have the fraction `share` of the sum of chances."""
        values = np.sort(self.region.values.ravel())[::-1].astype(np.float64)  # the largest first
        total = values.cumsum()
        # the first cell at which the sum reaches the share; the last cell if rounding prevents this
        index = min(int(np.searchsorted(total, share * total[-1])), len(values) - 1)
        return max(float(values[index]), 1e-6)


def points_of(places: Sequence[tuple[str, Place]]) -> PointList:
    """Return the places that a scan shows as points with descriptions. places: (text about the place, place)."""
    located = [(text, place) for text, place in places if place.point_ras is not None]
    descriptions = []
    for text, place in located:
        doubt = f"; {place.doubt}" if place.doubt else ""
        descriptions.append(f"{text}: {place.status}, {place.probability:.0%}{doubt}")
    titles = tuple(place.title for _, place in located)
    points = np.array([place.point_ras for _, place in located]).reshape(-1, 3)
    return PointList(titles, points, tuple(descriptions))


@dataclass(frozen=True)
class Named:
    """Name, title and probability of a place at a point. probability: chance that the point lies in the place."""

    name: str
    title: str
    probability: float


class PlaceFinder:
    """Finds places in one scan. A place is computed when it is first needed; the result is kept.

    Args:
        embedding: the map of the scan.
        volume: the scan. If given, its CT numbers make the answers more exact.
        atlas: where structures lie in the average body. If None, the atlas of this package is used.

    Raises:
        MapError: the map has no body coordinates in mm, or shows no body.
    """

    def __init__(
        self, embedding: EmbeddingMap, volume: Volume | None = None, atlas: Atlas | None = None
    ) -> None:
        self.embedding = embedding
        as_computed = embedding.with_spine(None)  # like the coordinates in the atlas
        self.grid = make_scan_grid(as_computed, volume)
        self._atlas = atlas or shipped_atlas(embedding.provenance.weights_hash)
        self._frame = frame_fields(self._atlas)
        self._presence = Presence(as_computed)
        self._terms = load_terms()
        self._fields: dict[str, Field] = {}
        self._alone: dict[str, Field] = {}
        self._spine = embedding.spine

    def prepare(self) -> None:
        """Compute all structures of the atlas now, so that the next call of `place` or `name_at` is quick."""
        if self.grid.hu is not None:
            _ = self._odds

    def find(self, mention: Mention) -> list[Place]:
        """Find the place of a mention. If the mention names both sides, find the left and the right place."""
        return [
            self.place(name, mention.qualifier, mention.negated, mention.remark)
            for name in mention.places
        ]

    def place(
        self, name: str, qualifier: Qualifier | None = None, negated: bool = False, remark: str = ""
    ) -> Place:
        """Find a place in the scan by the name of the place.

        Args:
            name: name of the place, such as `kidney_left`.
            qualifier: if given, a part of the place is found, or the space next to the place.
            negated, remark: copied to the result.

        Returns:
            The place. The probability of an organ of one sex is multiplied by the probability of this sex.

        Raises:
            AnatomicalEmbeddingError: no place has this name.
        """
        place = dataclasses.replace(self._place(name, qualifier), negated=negated, remark=remark)
        if place.point_ras is None or name not in _SEX_ORGANS:
            return place
        chance = place.probability * self._sex_probability(name)
        remark = f"{remark}; {_SEX_REMARK}" if remark else _SEX_REMARK
        status = place.status if chance >= CERTAIN_PLACE else UNCERTAIN
        return dataclasses.replace(place, status=status, probability=chance, remark=remark)

    def _sex_probability(self, name: str) -> float:
        """Return the probability that the patient has the sex that has the organ `name`.

        The largest organ of each sex is searched. If the scan shows the place of one of them alone, as a scan of the
        lower pelvis does, it tells nothing about the sex.
        """
        same_sex, opposite_sex = (self._place(organ) for organ in _SEX_ORGANS[name])
        if same_sex.point_ras is None or opposite_sex.point_ras is None:
            return _EITHER
        return same_sex.probability / (same_sex.probability + opposite_sex.probability)

    def _place(self, name: str, qualifier: Qualifier | None = None) -> Place:
        """Find a place as `place` does, but without regard to the patient's sex.

        The point comes from the numbered spine if the spine tells it, else it is the best point of the place's field.
        The part of the place inside the scan (`share`) comes from the spine, or from the field in the body frame.
        """
        term = self._terms[name]
        title = term.title
        field = self._field(name)
        frame = self._frame.field(name)
        whole = qualifier is None
        if qualifier is not None:
            title = f"{qualifier.text} {title}"
            field = qualify(self.grid, field, qualifier, term.side)
            frame = qualify(self._frame.grid, frame, qualifier, term.side)
        share, side = self._presence.share(frame, self._shift(name), name.startswith("rib_"))
        point, chance = self._best_point(field)
        numbered = spine_place(self._spine, name) if whole else None
        if numbered is not None:
            share = numbered.share
            if numbered.point_ras is not None:
                point = numbered.point_ras
                chance = numbered.chance
        from_atlas = whole and occupancy_of(name, self._atlas) is not None
        largest = float(self._field_alone(name).values.max()) if from_atlas else 0.0
        status = OUTSIDE if point is None else decide_place(share, largest, numbered is not None)
        region = self._blurred(field)
        if status == OUTSIDE:
            return Place(name, title, OUTSIDE, side, max(1 - share, 0.5), None, region, self.grid)
        if whole and term.tissue == "bone":
            point = self._firmest(point)
        if from_atlas:
            chance = float(np.interp(chance, _CHANCE, _RIGHT))
        elif whole and numbered is None:
            chance = _trusted(chance, term.recipe)
        else:
            chance = _TRUST * chance
        levels = self._doubtful_levels(name, point)
        if levels:
            chance = min(chance, _EITHER)
        if levels or chance < CERTAIN_PLACE:
            status = UNCERTAIN
        if status != PARTLY:
            side = ""
        return Place(name, title, status, side, chance, point, region, self.grid, levels=levels)

    def name_at(self, point_ras: np.ndarray, most: int = 3) -> list[Named]:
        """Name the places at a point (3,) RAS mm, the most likely place first.

        Raises PointsError for a point outside the scan.
        """
        point = as_points(point_ras)[0]
        if not self.embedding.contains(point[None])[0]:
            numbers = ", ".join(f"{x:g}" for x in np.round(point, 1))
            raise PointsError(
                f"point {numbers} lies outside the scan; choose a point inside the scan."
            )
        i, j, k = self.grid.nearest(point)
        if not self.grid.tissue[k, j, i]:
            return []
        frame_cell, _ = frame_index(self.grid.body[:, k, j, i])
        answers = []
        for name, occupancy in self._atlas.occupancies.items():
            term = self._terms.by_name.get(name)
            usual = _value_at(Field(occupancy.first, occupancy.share), as_cell(frame_cell))
            if term is None or usual < 255 * _NAMED:
                continue
            chance = _value_at(self._field(name), (i, j, k))
            if name in _SEX_ORGANS:
                chance *= _EITHER
            if chance >= _NAMED:
                answers.append(Named(name, term.title, round(_TRUST * chance, 3)))
        wholes = {whole for answer in answers for whole in self._terms.ancestors(answer.name)}
        # unlikely places come last; among the likely and the unlikely, a place comes after its named parts
        answers.sort(key=lambda a: (a.probability < 0.3, a.name in wholes, -a.probability))
        return answers[:most]

    def _doubtful_levels(self, name: str, point: np.ndarray) -> str:
        """Return the two possible levels, such as "L3 or L4", of the vertebra, disc or rib `name` at a point (3,), RAS
        mm. Returns "" if the level is certain, or if `name` has no level."""
        i, j, k = self.grid.nearest(point)
        return doubtful_levels(
            name, point[2], float(self.grid.body[2, k, j, i]), self._ends, self._spine
        )

    @cached_property
    def _ends(self) -> dict[str, float]:
        """The ends of the spine that the scan shows, from which levels can be counted."""
        return spine_ends(self.embedding)

    @cached_property
    def _ribs(self) -> Ribs | None:
        return find_ribs(self.grid, self._atlas, self._spine)

    def _field(self, name: str) -> Field:
        """Return for each grid cell the chance that the cell belongs to the place `name`."""
        if name not in self._fields:
            is_in_atlas = occupancy_of(name, self._atlas) is not None
            field = self._among_others(name) if is_in_atlas else self._from_recipe(name)
            self._fields[name] = field.trimmed()
        return self._fields[name]

    def _among_others(self, name: str) -> Field:
        """Return the chance of each cell to belong to structure `name`, lowered where other structures are likely."""
        alone = self._field_alone(name)
        # without CT numbers, the other structures are not computed, to save time
        if self.grid.hu is None:
            return alone
        wholes = self._terms.ancestors(name)
        sharing = [n for n in self._excluding if n in wholes or name in self._terms.ancestors(n)]
        return among_others(alone, self._odds, [self._field_alone(n) for n in sharing])

    @cached_property
    def _excluding(self) -> list[str]:
        """The names of structures in the atlas that exclude each other: a cell belongs to only one of these structures,
        but a structure and its own part can share a cell."""
        names = sorted(self._atlas.occupancies.keys() & self._terms.by_name.keys())
        return [name for name in names if occupancy_of(name, self._atlas)]

    @cached_property
    def _odds(self) -> Field:
        return total_odds(self.grid, [self._field_alone(name) for name in self._excluding])

    def _field_alone(self, name: str) -> Field:
        """Return the chance of each cell to belong to structure `name`, without regard to other structures."""
        if name not in self._alone:
            field = self._from_atlas(name, self._atlas.occupancies[name])
            self._alone[name] = field.trimmed()
        return self._alone[name]

    def _from_recipe(self, name: str) -> Field:
        """Return the chance of each cell to belong to a place without an occupancy: by the disc that the spine shows,
        or by the recipe of the place."""
        term = self._terms[name]
        if name.startswith("disc_") and self._spine is not None:
            disc = spine_place(self._spine, name)
            if disc.point_ras is not None:
                return blob(self.grid, disc.point_ras, _DISC_MM)
        if not term.recipe:
            return NOWHERE
        field = field_by_recipe(term.recipe, self.grid, self._field, term.side)
        if self.grid.hu is None or term.recipe.split()[0] in ("part", "union"):
            return field
        likely = 0.05 + 0.95 * tissue_likelihood(self.grid.hu[field.box], term.tissue)
        return field.with_values(field.values * likely)

    def _from_atlas(self, name: str, occupancy: Occupancy) -> Field:
        """Return each cell's chance to belong to a structure, from atlas, ribs, spine, descriptors and CT numbers."""
        prior = read_occupancy(self.grid, occupancy, self._shift(name), name.startswith("rib_"))
        if name.startswith("rib_") and self._ribs is not None:
            prior = self._ribs.prior(self.grid, name, prior) or prior  # None for too few cells
        if name.startswith("vertebrae_") and self._spine is not None:
            prior = between_bounds(self.grid, prior, self._spine, name[10:])
        if self._atlas.weights_hash == self.embedding.provenance.weights_hash:
            prior = weighed(self.grid, prior, self.embedding, occupancy.discriminant)
        tissue = self._terms[name].tissue
        alike = self._field_alone(_AORTA) if tissue == "artery" else None
        return sharpened(self.grid, prior, tissue, alike)

    def _blurred(self, field: Field) -> Field:
        """Return the chances of a place, blurred for its region: 0 outside the patient's body."""
        wide = self.grid.grown(field, 2 * _REGION_MM)
        return self.grid.in_tissue(wide, self.grid.blurred(wide, _REGION_MM))

    def _shift(self, name: str) -> float:
        """Return the correction, mm, of body heights at the vertebra or rib `name`; 0 for any other structure."""
        if self._spine is None or not name.startswith(("vertebrae_", "rib_")):
            return 0.0
        level = name.rsplit("_", 1)[1]
        # rib n begins at the thoracic vertebra n
        return self._spine.shift_of(f"T{level}" if name.startswith("rib_") else level)

    def _firmest(self, point: np.ndarray) -> np.ndarray:
        """Return the place of dense bone within 4 mm of a cell's centre: a thin bone may lie next to the centre."""
        if self.grid.fine_hu is None:
            return point
        step = self.grid.step / 2
        first_ras = self.grid.origin - step / 2  # centre of the first half cell
        # i, j, k of the first half cell within 4 mm, and after the last
        low = np.clip(np.ceil((point - _CELL_MM - first_ras) / step).astype(int), 0, None)
        high = np.clip(np.floor((point + _CELL_MM - first_ras) / step).astype(int) + 1, 0, None)
        k, j, i = slices_between(low, high)
        hu = self.grid.fine_hu[k, j, i]
        if not hu.size:  # the point lies beyond the grid
            return point
        points = first_ras + step * (np.indices(hu.shape)[::-1].reshape(3, -1).T + low)
        square = np.square(points - point).sum(axis=1)
        firmness = hu.ravel().clip(-200, 700) - _FIRMER_HU * square
        firmness[square > _CELL_MM**2] = -np.inf
        return points[int(firmness.argmax())]

    def _best_point(self, field: Field) -> tuple[np.ndarray | None, float]:
        """Return the point (3,), RAS mm, where the blurred `field` is highest, and the chance that the point lies in
        the place that `field` describes. Returns (None, 0) if `field` is nearly empty."""
        if field.total < 0.05:
            return None, 0.0
        smooth = self.grid.blurred(field, _PEAK_MM) * (field.values > 0)
        k, j, i = middle_of_likeliest(smooth)
        point = self.grid.origin + self.grid.step * (np.array([i, j, k]) + field.first)
        return point, float(np.clip((smooth[k, j, i] + field.values[k, j, i]) / 2, 0, 1))


def _trusted(chance: float, recipe: str) -> float:
    """Return the probability that a place outside the atlas is right. chance: as computed. recipe: its rule, or ""."""
    sure = surety(recipe) if recipe else None
    return _TRUST * chance if sure is None else sure * min(chance / _PEAK, 1.0)


def _value_at(field: Field, cell: Cell) -> float:
    """Return the value of a field at a cell i, j, k of its grid; 0 outside the box of the field."""
    return float(field.over(Field(cell, NOWHERE.values)).item())
