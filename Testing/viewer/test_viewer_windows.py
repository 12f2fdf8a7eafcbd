"""Test two browser windows of one session, and a browser that is closed during an upload."""

import re
import socket
import struct
import time
from urllib.parse import urlsplit

import numpy as np
import pytest

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)

from browsing import TOKEN, Page

VIEW = "scan0axial"
PICTURE = (
    "(() => {{ const cell = document.querySelector('[data-view={}]'), img = cell.querySelector('img'), "
    "box = cell.getBoundingClientRect(); return {}; }})()"
)
# where a share of the picture's height is seen
SHOWN = (
    "[box.x + box.width / 2, box.y + box.height / 2 "
    "+ ({} - 0.5) * img.naturalHeight * Math.min(box.width / img.naturalWidth, box.height / img.naturalHeight)]"
)


def wait_sharp(window: Page) -> None:
    window.wait(
        PICTURE.format(
            VIEW, "Math.abs(img.naturalWidth / img.naturalHeight - box.width / box.height) < 0.02"
        )
    )


def use(window: Page, other: Page) -> None:
    """Move the mouse over a view of a window, until its picture fits there; in the other window it is whole."""
    window.page.mouse.move(*window.at(VIEW, 0.4, 0.5))
    window.page.mouse.move(*window.at(VIEW, 0.5, 0.5))
    wait_sharp(window)
    other.wait(PICTURE.format(VIEW, "getComputedStyle(img).objectFit === 'contain'"))
    other.wait(PICTURE.format(VIEW, "Math.abs(img.offsetHeight - box.height) < 2"))


def test_two_windows_share_points_and_a_press_is_placed_where_it_is_seen(browser, running, page):
    """Windows of another shape and density: pictures are sharp in the window in use, and whole in the other."""
    other = Page(browser, running, size=(900, 800), density=1.5)
    other.wait_ready(2)
    wait_sharp(other)  # it was sized last
    use(page, other)
    page.add_point(VIEW, 0.5, 0.35)
    other.wait("document.querySelectorAll('[data-point] .answer:not(.pending)').length === 1")
    assert other.points() == page.points()
    other.place_mode()
    place = other.page.evaluate("() => " + PICTURE.format(VIEW, SHOWN.format(0.35)))
    use(other, page)
    other.page.mouse.move(*place)
    use(page, other)
    other.page.mouse.down()  # before any move there: its picture is still that of the first window, fitted in
    other.page.mouse.up()
    page.wait("document.querySelectorAll('[data-point]').length === 2")
    second, first = (
        np.array([float(n) for n in re.findall(r"-?[\d.]+", p["place"])]) for p in page.points()
    )
    assert second == pytest.approx(first, abs=2.5)
    other.close()
    assert other.faults == []
    page.add_point(VIEW, 0.4, 0.5)  # the window that stays can still be used
    assert len(page.points()) == 3


@pytest.mark.parametrize("way", ["closed", "reset"])
def test_a_browser_that_closes_during_an_upload_leaves_nothing(running, way):
    address = urlsplit(running.url)
    head = (
        f"POST /upload HTTP/1.1\r\nHost: {address.netloc}\r\nOrigin: http://{address.netloc}\r\n"
        f"Cookie: anatemb-view-{address.port}={TOKEN}\r\nContent-Type: multipart/form-data; boundary=b\r\n"
        "Content-Length: 3000000\r\n\r\n"
        '--b\r\nContent-Disposition: form-data; name="file"; filename="a.nii"\r\n\r\n'
    )
    with socket.create_connection((address.hostname, address.port), timeout=10) as sending:
        sending.sendall(head.encode() + bytes(2_000_000))
        wait_for(running, 1)
        if way == "reset":
            sending.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_for(running, 0)
    assert running.errors() == []


def wait_for(running, count: int, seconds: float = 60.0) -> None:
    """Wait until that many uploads lie on the disk."""
    end = time.monotonic() + seconds
    while (
        len(list(running.temporary.glob("anatemb-view-*/upload-*"))) != count
        and time.monotonic() < end
    ):
        time.sleep(0.02)
    assert len(list(running.temporary.glob("anatemb-view-*/upload-*"))) == count
