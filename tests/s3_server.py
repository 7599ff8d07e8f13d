"""A server of S3, as small as Arrow's client needs: objects in memory, signatures not looked at."""

import contextlib
import hashlib
import itertools
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

DATE = "Sun, 01 Jan 2026 00:00:00 GMT"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Server"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _asked(self) -> tuple[str, dict[str, str]]:
        split = urlsplit(self.path)
        return unquote(split.path).strip("/"), dict(parse_qsl(split.query, keep_blank_values=True))

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        self.send_response(status)
        for name, value in ({"Content_Length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _xml(self, kind: str, inner: str) -> None:
        self._answer(
            200, f'<?xml version="1.0"?><{kind}>{inner}</{kind}>'.encode(), Content_Type="application/xml"
        )

    def _body(self) -> bytes:
        body = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return _unpacked(body) if "aws-chunked" in self.headers.get("Content-Encoding", "") else body

    def do_HEAD(self) -> None:
        """Of an object or a bucket."""
        key, _ = self._asked()
        if key not in self.server.objects:
            bucket = "/" not in key and any(name.startswith(f"{key}/") for name in self.server.objects)
            self._answer(200 if bucket else 404)
            return
        body = self.server.objects[key]
        self._answer(200, Content_Length=str(len(body)), Last_Modified=DATE, ETag=_tag(body))

    def do_GET(self) -> None:
        """An object, some bytes of it, or the names below a prefix."""
        key, query = self._asked()
        if "list-type" in query:
            self._list(key, query)
        elif (body := self.server.objects.get(key)) is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        elif part := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")):
            some = body[int(part[1]) : int(part[2]) + 1]
            span = f"bytes {part[1]}-{int(part[1]) + len(some) - 1}/{len(body)}"
            self._answer(206, some, Content_Range=span, Last_Modified=DATE, ETag=_tag(body))
        else:
            self._answer(200, body, Last_Modified=DATE, ETag=_tag(body))

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        prefix, sign = query.get("prefix", ""), query.get("delimiter", "")
        names = (name.removeprefix(f"{bucket}/") for name in sorted(self.server.objects))
        inside = [name for name in names if name.startswith(prefix)]
        ends = {name: name.find(sign, len(prefix)) if sign else -1 for name in inside}
        folders = dict.fromkeys(name[: end + 1] for name, end in ends.items() if end >= 0)
        rows = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(self.server.objects[f'{bucket}/{name}'])}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for name, end in ends.items()
            if end < 0
        )
        rows += "".join(
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders
        )
        self._xml(
            "ListBucketResult", f"<IsTruncated>false</IsTruncated><KeyCount>{len(inside)}</KeyCount>{rows}"
        )

    def do_DELETE(self) -> None:
        """Of an object."""
        self.server.objects.pop(self._asked()[0], None)
        self._answer(204)

    def do_PUT(self) -> None:
        """An object, or a part of one."""
        (key, query), body = self._asked(), self._body()
        if "uploadId" in query:
            self.server.uploads[query["uploadId"]][int(query["partNumber"])] = body
        elif "/" in key:
            self.server.objects[key] = body
        self._answer(200, ETag=_tag(body))

    def do_POST(self) -> None:
        """Begin or end an object of parts."""
        (key, query), _ = self._asked(), self._body()
        if "uploads" in query:
            number = str(next(self.server.numbers))  # several uploads begin and end at once
            self.server.uploads[number] = {}
            self._xml("InitiateMultipartUploadResult", f"<UploadId>{number}</UploadId>")
            return
        pieces = self.server.uploads.pop(query["uploadId"])
        self.server.objects[key] = b"".join(pieces[number] for number in sorted(pieces))
        self._xml("CompleteMultipartUploadResult", f"<ETag>{escape(_tag(b''))}</ETag>")


def _unpacked(body: bytes) -> bytes:
    """What AWS's own chunks hold, each after a line of its size."""
    whole, at = b"", 0
    while True:
        first = body.index(b"\r\n", at) + 2
        if not (size := int(body[at:first].split(b";")[0], 16)):
            return whole
        whole, at = whole + body[first : first + size], first + size + 2


def _tag(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


class Server(ThreadingHTTPServer):
    """Objects by bucket/key; asked: requests as they came."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.numbers = itertools.count()
        self.asked: list[str] = []

    @property
    def environment(self) -> dict[str, str]:
        """What leads Arrow's client here."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """While the body runs."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
