"""Files that the page downloads; a request never names a path."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import BinaryIO

from aiohttp import web

from ..logic.boxes import Boxes
from ..logic.exports import Exports
from ..logic.session import Session, file_name

Maker = Callable[[web.Request], Awaitable[tuple[str, bytes | BinaryIO]]]


def add_downloads(app: web.Application, session: Session, exports: Exports, boxes: Boxes) -> None:
    """Add /export/NAME. A refusal is a sentence, in the answer and on the page."""

    async def points(_request: web.Request) -> tuple[str, bytes]:
        return "points.zip", exports.points()

    async def table(_request: web.Request) -> tuple[str, bytes]:
        return "matches.csv", exports.table()

    async def report(_request: web.Request) -> tuple[str, bytes]:
        return "report.html", await asyncio.to_thread(exports.report())

    async def scene(_request: web.Request) -> tuple[str, BinaryIO]:
        return "scene.mrb", await asyncio.to_thread(exports.scene())

    async def crop(request: web.Request) -> tuple[str, bytes]:
        node = boxes.crop_node(request.query.get("id"))
        if node is None:
            raise web.HTTPNotFound(text="This crop was removed; load the page again.")
        return f"{file_name(node.GetName())}.nii.gz", await asyncio.to_thread(exports.volume(node))

    makers: dict[str, Maker] = {
        "points.zip": points,
        "matches.csv": table,
        "report.html": report,
        "scene.mrb": scene,
        "crop.nii.gz": crop,
    }
    for name, make in makers.items():
        app.router.add_get(f"/export/{name}", _handler(session, make))


def _handler(session: Session, make: Maker):
    from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

    async def handle(request: web.Request) -> web.Response:
        try:
            name, content = await make(request)
        except AnatomicalEmbeddingError as error:
            session.report(str(error))
            return web.Response(status=409, text=str(error))
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return web.Response(body=content, content_type="application/octet-stream", headers=headers)

    return handle
