"""Scrolling in one scan takes the others to the same part of the body."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from AnatomicalEmbeddingLib.shared.VolumeNodes import fromWorld, toWorld

if TYPE_CHECKING:
    from .session import Session
    from .views import Views

_PLACES = 24  # of a slice, whose median place along the body is where another scan goes


class Linking:
    """Publishes `linked`: is it on?"""

    def __init__(self, session: Session, views: Views) -> None:
        self._session, self._views = session, views
        self.on = True
        self._scrolled: str | None = None
        views.scrolled.connect(self._on_scrolled)

    def toggle(self) -> None:
        self.on, self._scrolled = not self.on, None

    def poll(self) -> None:
        """Follow the view that was scrolled last, once its pictures are drawn."""
        if self._scrolled is not None and not self._views.painter.busy:
            tag, self._scrolled = self._scrolled, None
            self._follow(tag)

    def publish(self, state) -> None:
        state.linked = self.on

    def _on_scrolled(self, tag: str) -> None:
        if self.on:
            self._scrolled = tag

    def _follow(self, tag: str) -> None:
        scan, view, others = self._views.alike(tag)
        store = self._session.store
        source = None if scan is None else store.map(scan)
        others = [(node, other) for node, other in others if store.map(node) is not None]
        if source is None or not others:
            return
        places = _places_in(view.get_view_node(), scan, source)
        if not len(places):
            return
        found = store.engine.match(source, places, [store.map(node) for node, _ in others], "fast")
        for (node, other), matches in zip(others, found, strict=True):
            here = slice(None) if matches.status is None else matches.status != "absent"
            if len(matches.points_ras[here]) >= len(places) / 2:  # else it does not show that part of the body
                other.get_view_node().JumpSliceByOffsetting(*np.median(toWorld(node, matches.points_ras[here]), axis=0))


def _places_in(slice_node, scan, embedding) -> np.ndarray:
    """(n, 3) RAS mm of places of the body in a slice, spread over it; in the scan's own coordinates."""
    matrix = slice_node.GetSliceToRAS()
    at = fromWorld(scan, [[matrix.GetElement(n, 3) for n in range(3)]])[0]
    axis = int(np.argmax([abs(matrix.GetElement(n, 2)) for n in range(3)]))
    cell = np.linalg.inv(embedding.cell_to_ras) @ [*at, 1.0]
    cells = embedding.body_index.numpy()
    cells = cells[cells[:, axis] == round(cell[axis])]
    cells = cells[:: max(1, len(cells) // _PLACES)]
    places = cells @ embedding.cell_to_ras[:3, :3].T + embedding.cell_to_ras[:3, 3]
    places[:, axis] = at[axis]
    return places[embedding.contains(places)] if len(places) else places
