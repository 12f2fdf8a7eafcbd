"""Chooses how the points of one scan are found in another scan."""

from collections.abc import Callable
from typing import NamedTuple

from ..embedding.cache import MapCache
from ..embedding.map import EmbeddingMap
from ..errors import (
    AnatomicalEmbeddingError,
    CancelCallback,
    CancelledError,
    ProgressCallback,
    VolumeError,
)
from ..films.patient import CTInFilm, FilmInCT, ProjectedCT
from ..registration.films import FilmPair
from ..scan.volume import Film, Volume
from .one_patient import MappedScan, correspondence_of
from .relation import MapRelation, Relation


class ProjectedScan(NamedTuple):
    """A CT that is compared with films. map: the map of the film that the CT was projected to."""

    projection: ProjectedCT
    map: EmbeddingMap

    @property
    def volume(self) -> Volume:
        """The CT."""
        return self.projection.volume


RelatedScan = MappedScan | ProjectedScan
Side = RelatedScan | EmbeddingMap  # the template or the target of a relation


def map_scan(
    volume: Volume, embed: Callable[[Volume], EmbeddingMap], for_films: bool
) -> RelatedScan:
    """Make the map of a scan by which the scan can be related to others.

    Args:
        volume: a CT or a film.
        embed: makes the map of a volume, such as the method `embed` of a model.
        for_films: True if `embed` has weights for films; a CT is then projected to a film.
    """
    if isinstance(volume, Film) or not for_films:
        return MappedScan(volume, embed(volume))
    projection = ProjectedCT.of(volume)
    return ProjectedScan(projection, embed(projection.film))


def relate(
    template: Side,
    target: Side,
    *,
    same_patient: bool | None = None,
    effort: str = "standard",
    cache: MapCache | None = None,
    progress: ProgressCallback | None = None,
    cancelled: CancelCallback | None = None,
) -> Relation:
    """Return where the points of a template lie in a target: the one place where this is chosen.

    Two films, and a CT and a film, are related by their maps as films. Two CTs of one patient are registered once; all
    other CTs, and scans of other kinds, are matched.

    Args:
        template, target: scans with their maps, as `map_scan` returns them. Where only a map is given, points are
            matched.
        same_patient: True to register two CTs, False to match their points, None to register CTs with the same DICOM
            Patient ID. If CTs cannot be registered, their points are matched; if it is True, with a `refusal`.
        effort: effort of matching, see `match_all`. It has no meaning for CTs that are registered.
        cache: where registrations are kept.
        progress, cancelled: see `correspondence_of`.

    Raises:
        AnatomicalEmbeddingError: same_patient is True, but only a map of a CT is given.
        VolumeError: both scans are CTs that were projected to films.
        CancelledError: `cancelled()` returned True.

    Example:
        relation = relate(map_scan(prior, model.embed, False), map_scan(current, model.embed, False))
        matches = relation.points(points_ras)
    """
    first, second = map(_map_of, (template, target))
    if first.is_film:
        return _relate_films(template, target, effort)
    by_maps = MapRelation(first, second, effort)
    if same_patient is False or first.is_own_kind:
        return by_maps
    if not (isinstance(template, MappedScan) and isinstance(target, MappedScan)):
        if same_patient:
            raise AnatomicalEmbeddingError(
                "scans of one patient are registered by their voxels; give scans, not maps."
            )
        return by_maps
    patient_ids = {template.volume.patient_id, target.volume.patient_id}
    if same_patient is None and (len(patient_ids) > 1 or "" in patient_ids):
        return by_maps
    try:
        return correspondence_of(template, target, cache, progress, cancelled)
    except CancelledError:
        raise
    except AnatomicalEmbeddingError as error:
        return MapRelation(first, second, effort, str(error) if same_patient else "")


def _relate_films(template: Side, target: Side, effort: str) -> Relation:
    """Return the relation of two films, or of a film and a CT that was projected to a film."""
    cts = [scan.projection for scan in (template, target) if isinstance(scan, ProjectedScan)]
    if len(cts) == 2:
        name = cts[1].volume.path or cts[1].volume.name
        raise VolumeError(
            f"{name}: is a CT, but other targets are films; match CTs in a command of their own."
        )
    films = FilmPair(_map_of(template), _map_of(target), effort, same_patient=bool(cts))
    if isinstance(template, ProjectedScan):
        return CTInFilm(template.projection, films)
    if isinstance(target, ProjectedScan):
        return FilmInCT(target.projection, films)
    return films


def _map_of(scan: Side) -> EmbeddingMap:
    """Return the map of a scan, or the map itself where only a map is given."""
    return scan if isinstance(scan, EmbeddingMap) else scan.map
