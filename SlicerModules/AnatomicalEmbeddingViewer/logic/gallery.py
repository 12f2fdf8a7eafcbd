"""The gallery of a cohort: shows pictures of the same place in every scan, and opens a scan at this place."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import Lock, Semaphore
from typing import TYPE_CHECKING

import numpy as np

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbeddingLib.shared import Views as SliceViews

if TYPE_CHECKING:
    from AnatomicalEmbedding.cohort.manifest import Row

    from .scans import Scans
    from .session import Session

_REFINED_COUNT = 50  # number of most probable answers that are matched more exactly
_SCAN_LIMIT = 4  # number of recently used scans that are kept in memory
_THREAD_LIMIT = 2  # number of pictures that may be made at the same time


class Gallery:
    """Searches a cohort and makes pictures of its scans. Methods may be called from several threads.

    Raises:
        AnatomicalEmbeddingError: the folder is not a cohort, or no scan of the cohort is embedded.
    """

    def __init__(self, folder: Path, session: Session, scans: Scans) -> None:
        from AnatomicalEmbedding.cohort.search import Search
        from AnatomicalEmbedding.cohort.store import Store

        self.name = folder.absolute().name
        self._session = session
        self._scans = scans
        self._search = Search(Store(folder))
        # number of a row of the manifest -> the row, and the facts of its map
        self._records = {record[0].id: record for record in self._search.index.scans.values()}
        self._searching = Lock()
        self._cutting = Semaphore(_THREAD_LIMIT)
        self._volume = lru_cache(_SCAN_LIMIT)(lambda row: row.source.read())

    def scans(self) -> dict:
        """Return a dict: `name` of the cohort, `levels` (landmark -> body height, mm), `places` (the embedded scans).

        Each entry of `places` is a dict about one scan, in which `place` is the middle of the body, (3,) RAS mm.
        """
        from AnatomicalEmbedding.embedding.coverage import LANDMARKS_MM

        cards = []
        for row, facts in self._records.values():
            odd = "; ".join(facts["faults"])
            cards.append(self._card(row) | {"odd": odd, "place": self._middle(row)})
        return {"name": self.name, "levels": LANDMARKS_MM, "places": cards}

    def find_words(self, words: str) -> list[dict]:
        """Find, in every scan, the place that `words` describe. Returns all answers, the most probable answer first."""
        from AnatomicalEmbedding.cohort.search import one_mention

        mention = one_mention(words)
        with self._searching:
            return self._answers(self._search.words(mention, _REFINED_COUNT))

    def find_point(self, row_id: int, point_ras: list[float]) -> list[dict]:
        """Find a point (RAS mm of the scan `row_id`) in every scan. Returns all answers, the most probable first."""
        from AnatomicalEmbedding.matching.query import read_query

        with self._searching:
            template = self._search.map_of(self._row(row_id))
            query = read_query(template, np.array([point_ras], float))
            return self._answers(self._search.point(query, _REFINED_COUNT))

    def picture(self, row_id: int, point_ras: list[float], plane: str) -> bytes:
        """Return a JPEG of a scan around a point, parallel to the body's axes.

        Args:
            row_id: number of the scan in the cohort's manifest.
            point_ras: (3,) RAS mm.
            plane: a key of PLANES.
        """
        from AnatomicalEmbedding.cohort.gallery import PLANES, thumbnail
        from AnatomicalEmbedding.reports.pictures import encode_jpeg

        row = self._row(row_id)
        with self._cutting:
            _row, facts = self._records[row.id]
            axes = PLANES.get(plane, PLANES["axial"])
            return encode_jpeg(thumbnail(self._volume(row), np.array(point_ras), facts, axes))

    def open(self, row_id: int, point_ras: list[float]) -> None:
        """Start to read a scan into the session. When the scan is read, its views move to `point_ras`, RAS mm."""
        row = self._row(row_id)
        session = self._session
        before = len(session.scans)
        name = self._search.names[row.id]

        def jump() -> None:
            if len(session.scans) > before:
                SliceViews.jump(session.scene, session.scans[-1], point_ras, centre=False)

        self._scans.read(name, lambda _cancelled: [replace(self._volume(row), name=name)], jump)

    def _row(self, row_id: int) -> Row:
        if row_id not in self._records:
            raise AnatomicalEmbeddingError(
                "This scan is no longer in the cohort; load the page again."
            )
        return self._records[row_id][0]

    def _middle(self, row: Row) -> list[float]:
        cells = self._search.index.cells(row)
        to_ras = cells.cell_to_ras
        return _rounded(to_ras[:3, :3] @ cells.index.mean(axis=0) + to_ras[:3, 3])

    def _card(self, row: Row) -> dict:
        _row, facts = self._records[row.id]
        card = {"id": row.id, "scan": row.scan, "name": self._search.names[row.id]}
        for name in ("held", "low_mm", "high_mm", "misfit_mm"):
            card[name] = facts[name]
        return card

    def _answers(self, answers: list) -> list[dict]:
        cards = []
        for answer in answers:
            card = self._card(answer.row)
            for name in ("status", "text", "probability", "similarity"):
                card[name] = getattr(answer, name)
            card["place"] = None if answer.point_ras is None else _rounded(answer.point_ras)
            cards.append(card)
        return cards


def _rounded(point_ras: np.ndarray) -> list[float]:
    return np.round(point_ras, 1).tolist()
