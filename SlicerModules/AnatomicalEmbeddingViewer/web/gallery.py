"""Addresses of the gallery of a cohort: its page, searches, pictures, and a scan opened in the viewer."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from ..logic.gallery import Gallery

_PAGE = Path(__file__).resolve().parents[1] / "static" / "gallery.html"
PAGE = "/gallery.html"


def add_gallery(app: web.Application, gallery: Gallery) -> None:
    """/gallery.html and /gallery/...; a refusal is a sentence."""

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text=_PAGE.read_text(encoding="utf-8"), content_type="text/html")

    async def scans(_request: web.Request) -> web.Response:
        return web.json_response(await asyncio.to_thread(gallery.scans))

    async def find(request: web.Request) -> web.Response:
        if words := request.query.get("words", "").strip():
            return web.json_response(await asyncio.to_thread(gallery.by_words, words))
        return web.json_response(await asyncio.to_thread(gallery.like, *_place(request)))

    async def picture(request: web.Request) -> web.Response:
        made = await asyncio.to_thread(gallery.picture, *_place(request), request.query.get("plane", ""))
        return web.Response(body=made, content_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"})

    async def open_(request: web.Request) -> web.Response:
        gallery.open(*_place(request))
        return web.Response(text="read in the background")

    app.router.add_get(PAGE, page)
    app.router.add_get("/gallery/scans", _answer(scans))
    app.router.add_get("/gallery/find", _answer(find))
    app.router.add_get("/gallery/picture", _answer(picture))
    app.router.add_post("/gallery/open", _answer(open_))


def _place(request: web.Request) -> tuple[int, list[float]]:
    """The scan and the point, RAS mm, that a request names."""
    try:
        point = [float(part) for part in request.query.get("point", "").split(",")]
        row = int(request.query.get("id", ""))
    except ValueError:
        point = []
    if len(point) != 3 or not all(map(math.isfinite, point)):
        raise web.HTTPBadRequest(text="Name a scan and a point in it.")
    return row, point


def _answer(handler):
    from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

    async def answer(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except AnatomicalEmbeddingError as error:
            return web.Response(status=422, text=str(error))

    return answer
