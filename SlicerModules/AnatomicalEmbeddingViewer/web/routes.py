"""The addresses that the viewer adds to the addresses of trame: page, script, style, uploads, downloads and gallery.

No request contains the path of a file on this computer.
"""

import asyncio
import math
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from aiohttp import web

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

from ..logic.boxes import Boxes
from ..logic.exports import Exports
from ..logic.gallery import Gallery
from ..logic.scans import Scans
from ..logic.session import Session, file_name
from .uploads import read_files, receive

Handler = Callable[[web.Request], Awaitable[web.Response]]
_STATIC = Path(__file__).resolve().parents[1] / "static"
GALLERY_PAGE = "/gallery.html"


def add_routes(
    app: web.Application, session: Session, scans: Scans, exports: Exports, boxes: Boxes
) -> None:
    """Add all addresses except the gallery's. Call this before trame adds its own addresses and the server listens.

    Args:
        app: the server's application.
        session, scans, exports, boxes: the parts of the viewer's logic that the addresses call.
    """

    async def upload(request: web.Request) -> web.Response:
        folder, names = await receive(request, session.folder)
        title = names[0] if len(names) == 1 else f"{len(names)} files"
        scans.read(
            title,
            partial(read_files, folder, names, check=session.check),
            partial(shutil.rmtree, folder, ignore_errors=True),
        )
        return web.Response(text="read in the background")

    def download(name: str, make: Callable) -> Handler:
        """Return a handler that sends a file. make(): returns its content, or a function that makes it in a thread."""

        async def handle(_request: web.Request) -> web.Response:
            content = make()
            if not isinstance(content, bytes):
                content = await asyncio.to_thread(content)
            return _file(name, content)

        return handle

    async def crop(request: web.Request) -> web.Response:
        node = boxes.crop_node(request.query.get("id"))
        if node is None:
            raise web.HTTPNotFound(text="This crop is no longer in the scene; load the page again.")
        content = await asyncio.to_thread(exports.volume(node))
        return _file(f"{file_name(node.GetName())}.nii.gz", content)

    async def alive(_request: web.Request) -> web.Response:
        return web.Response(text="yes")

    app.router.add_get("/", _answer_page)
    app.router.add_get("/index.html", _answer_page)
    app.router.add_get("/alive", alive)
    app.router.add_static("/viewer", _STATIC)
    app.router.add_post("/upload", refusing(upload, session.report))
    makers = {
        "points.zip": exports.points,
        "matches.csv": exports.table,
        "report.html": exports.report,
        "scene.mrb": exports.scene,
    }
    for name, make in makers.items():
        app.router.add_get(f"/export/{name}", refusing(download(name, make), session.report))
    app.router.add_get("/export/crop.nii.gz", refusing(crop, session.report))


def refusing(handler: Handler, report: Callable[[str], None] = lambda _sentence: None) -> Handler:
    """Return a handler that answers an AnatomicalEmbeddingError with status 422 and calls `report` with the message."""

    async def handle(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except AnatomicalEmbeddingError as error:
            report(str(error))
            return web.Response(status=422, text=str(error))

    return handle


def _file(name: str, content) -> web.Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return web.Response(body=content, content_type="application/octet-stream", headers=headers)


async def _answer_page(_request: web.Request) -> web.Response:
    """Answer with the page, after two file names of trame, which depend on trame's version, were inserted."""
    from trame_client.module import vue3

    built = Path(vue3.www) / "assets"
    script = next(built.glob("index-*.js")).name
    style = next(built.glob("index-*.css")).name
    page = (_STATIC / "index.html").read_text(encoding="utf-8")
    return web.Response(
        text=page.replace("{script}", script).replace("{style}", style), content_type="text/html"
    )


def add_gallery(app: web.Application, gallery: Gallery) -> None:
    """Add the addresses /gallery.html and /gallery/..., which show and search the cohort."""

    async def page(_request: web.Request) -> web.FileResponse:
        return web.FileResponse(_STATIC / "gallery.html")

    async def scans(_request: web.Request) -> web.Response:
        return web.json_response(await asyncio.to_thread(gallery.scans))

    async def find(request: web.Request) -> web.Response:
        words = request.query.get("words", "").strip()
        if words:
            answers = await asyncio.to_thread(gallery.find_words, words)
        else:
            answers = await asyncio.to_thread(gallery.find_point, *_row_id_and_point(request))
        return web.json_response(answers)

    async def picture(request: web.Request) -> web.Response:
        jpeg = await asyncio.to_thread(
            gallery.picture, *_row_id_and_point(request), request.query.get("plane", "")
        )
        return web.Response(
            body=jpeg, content_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"}
        )

    async def open_scan(request: web.Request) -> web.Response:
        gallery.open(*_row_id_and_point(request))
        return web.Response(text="read in the background")

    app.router.add_get(GALLERY_PAGE, page)
    app.router.add_get("/gallery/scans", refusing(scans))
    app.router.add_get("/gallery/find", refusing(find))
    app.router.add_get("/gallery/picture", refusing(picture))
    app.router.add_post("/gallery/open", refusing(open_scan))


def _row_id_and_point(request: web.Request) -> tuple[int, list[float]]:
    """Return the scan (`?id=3`) and the point (`&point=1,2,3`, RAS mm) of a request. Refuses a request without them."""
    try:
        row_id = int(request.query["id"])
        point_ras = [float(number) for number in request.query["point"].split(",")]
        if len(point_ras) == 3 and all(map(math.isfinite, point_ras)):
            return row_id, point_ras
    except (KeyError, ValueError):
        pass
    raise web.HTTPBadRequest(
        text="The scan or the point is missing in the request; load the page again."
    )
