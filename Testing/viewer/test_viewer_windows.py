"""Test a browser that is closed during an upload."""

import socket
import struct
import time
from urllib.parse import urlsplit

import pytest

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)

from browsing import TOKEN


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
