"""What the page offers as files; nothing is read by a name that was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from aiohttp import web

from ..logic.follow_up_files import begin_export
from ..logic.session import file_name

if TYPE_CHECKING:
    from ..page import Viewer


def add_downloads(app: web.Application, viewer: Viewer) -> None:
    """/export/...; a refusal is a sentence, as text and on the page."""
    exports = viewer.exports

    async def points(_request: web.Request) -> tuple[str, bytes]:
        return "points.zip", exports.all_points()

    async def points_of(request: web.Request) -> tuple[str, bytes]:
        return exports.points_of(request.query.get("id", ""))

    async def table(_request: web.Request) -> tuple[str, bytes]:
        return "matches.csv", exports.table().encode()

    async def report(_request: web.Request) -> tuple[str, bytes]:
        return "report.html", await asyncio.to_thread(exports.report())

    async def scene(_request: web.Request) -> tuple[str, BinaryIO]:
        return "scene.mrb", await asyncio.to_thread(exports.scene())

    async def follow_up(_request: web.Request) -> tuple[str, BinaryIO]:
        return "follow-up.zip", await asyncio.to_thread(begin_export(viewer.session, viewer.follow_up))

    async def crop(request: web.Request) -> tuple[str, bytes]:
        node = viewer.boxes.crop_of(request.query.get("id"))
        if node is None:
            raise web.HTTPNotFound(text="This crop is not there any more.")
        return f"{file_name(node.GetName())}.nii.gz", await asyncio.to_thread(exports.volume(node))

    async def outlines(_request: web.Request) -> tuple[str, bytes]:
        if viewer.outlines is None:
            raise web.HTTPNotFound(text="The viewer was started without a segmenter.")
        return "outlines.zip", viewer.outlines.export()

    made = {
        "points.zip": points, "points.mrk.json": points_of, "matches.csv": table, "report.html": report,
        "scene.mrb": scene, "crop.nii.gz": crop, "follow-up.zip": follow_up,
        "outlines.zip": outlines,
    }  # fmt: skip
    for name, make in made.items():
        app.router.add_get(f"/export/{name}", _answer(viewer, make))


def _answer(viewer: Viewer, make: Callable):
    from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

    async def answer(request: web.Request) -> web.Response:
        try:
            name, content = await make(request)
        except AnatomicalEmbeddingError as error:
            viewer.session.say(str(error))
            return web.Response(status=409, text=str(error))
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return web.Response(body=content, content_type="application/octet-stream", headers=headers)

    return answer
