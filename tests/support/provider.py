"""An HTTP API of our own on the loopback, whose answers can be made wrong page by page.

`Provider` serves a list of grants at /cursor, /page, /offset, /link and /all, paged by as many
as are asked for, the accounts at /users, and those of one at /users/ACCOUNT. It notes every
call. What goes wrong is scripted: `faults[n]` are what happens to the next calls for the page that
begins at item n, in order, until none is left; `of_account[a]` those to look-ups of an account.
"""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Item = dict[str, Any]


@dataclass
class Answer:
    """What is about to be answered; a fault changes it."""

    items: list[Item]
    begin: int
    next: int | None
    total: int
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cut: int | None = None
    declared: bool = True
    reset: bool = False
    silent: float = 0.0


Fault = Callable[["Provider", Answer], None]


def status(code: int, **headers: str) -> Fault:
    """That status, with headers; `_` in a name is `-`."""

    def fault(_: Provider, answer: Answer) -> None:
        answer.status, answer.body = code, b'{"error": "no"}'
        answer.headers |= {name.replace("_", "-"): value for name, value in headers.items()}

    return fault


def reset(_: Provider, answer: Answer) -> None:
    """The connection is reset before an answer."""
    answer.reset = True


def silent(seconds: float) -> Fault:
    """No answer for so long."""

    def fault(_: Provider, answer: Answer) -> None:
        answer.silent = seconds

    return fault


def cut(at: int, *, declared: bool = True) -> Fault:
    """The body ends after so many bytes, whether or not its length was declared."""

    def fault(_: Provider, answer: Answer) -> None:
        answer.cut, answer.declared = at, declared

    return fault


def packed(at: int | None = None) -> Fault:
    """The body is gzip, and ends after so many of its bytes."""

    def fault(provider: Provider, answer: Answer) -> None:
        text = provider.body_of("/cursor", answer)
        answer.body = gzip.compress(text)[:at]
        answer.headers |= {"Content-Encoding": "gzip"}

    return fault


def body(text: bytes) -> Fault:
    """Status 200, and this."""

    def fault(_: Provider, answer: Answer) -> None:
        answer.body = text

    return fault


def emptied(_: Provider, answer: Answer) -> None:
    """No items, and no more of them."""
    answer.items, answer.next = [], None


def short(by: int) -> Fault:
    """The last items of the page are not there."""

    def fault(_: Provider, answer: Answer) -> None:
        answer.items = answer.items[:-by]

    return fault


def repeated(provider: Provider, answer: Answer) -> None:
    """The items of the first page come again."""
    answer.items = provider.items[: len(answer.items)]


def miscounted(by: int) -> Fault:
    """A total that is not right."""

    def fault(_: Provider, answer: Answer) -> None:
        answer.total += by

    return fault


def deleting(index: int) -> Fault:
    """That item is deleted once this page was answered."""

    def fault(provider: Provider, _: Answer) -> None:
        provider.later.append(lambda: provider.items.pop(index) and None)

    return fault


@dataclass(frozen=True)
class Call:
    """A call as it came in; `at` by the monotonic clock."""

    at: float
    path: str
    query: dict[str, str]
    headers: dict[str, str]


class Provider:
    """The API. `delay` is how long each answer takes."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        self.calls: list[Call] = []
        self.faults: dict[int, list[Fault]] = defaultdict(list)
        self.of_account: dict[str, list[Fault]] = defaultdict(list)
        self.always: Fault | None = None
        self.later: list[Callable[[], None]] = []
        self.delay = 0.0
        self.most = 1000
        self.lock = threading.Lock()
        self.under_way = self.most_at_once = 0
        self.token = ""
        self.asked_for_tokens: list[tuple[str, str]] = []
        self.ends = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.provider = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    def __enter__(self) -> Provider:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ends.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, query: dict[str, str], headers: dict[str, str]) -> Answer:
        with self.lock:
            self.calls.append(Call(time.monotonic(), path, query, headers))
            if path.startswith("/users/"):
                return self._looked_up(unquote(path.removeprefix("/users/")))
            if path == "/users":
                return Answer([], 0, None, 0, body=json.dumps({"data": self.users}).encode())
            size = min(int(query.get("limit", self.most)), self.most)
            begin = self._begin(path, query, size)
            end = len(self.items) if path == "/all" else begin + size
            found = Answer(
                self.items[begin:end],
                begin,
                end if end < len(self.items) else None,
                len(self.items),
            )
            if self.token and headers.get("authorization") != f"Bearer {self.token}":
                status(401)(self, found)
                return found
            if self.always is not None:
                self.always(self, found)
            elif self.faults.get(begin):
                self.faults[begin].pop(0)(self, found)
            if found.body is None:
                found.body = self.body_of(path, found)
                if path == "/link" and found.next is not None:
                    to = f"{self.url}/link?after={self._after(found)}&limit={size}"
                    found.headers["Link"] = f'<{to}>; rel="next"'
                elif path == "/link" and found.begin:
                    found.headers["Link"] = f'<{self.url}/link?limit={size}>; rel="first"'
            for act in self.later:
                act()
            self.later.clear()
            return found

    def _looked_up(self, account: str) -> Answer:
        found = [item for item in self.items if item["account_id"] == account]
        answer = Answer(found, 0, None, len(found))
        if self.of_account.get(account):
            self.of_account[account].pop(0)(self, answer)
        elif not found:
            status(404)(self, answer)
        if answer.body is None:
            answer.body = json.dumps({"grants": answer.items}).encode()
        return answer

    @property
    def users(self) -> list[Item]:
        """The accounts, in an order of their own."""
        return [{"id": a} for a in sorted({i["account_id"] for i in self.items}, reverse=True)]

    def _begin(self, path: str, query: dict[str, str], size: int) -> int:
        if path == "/page":
            return (int(query.get("page", "1")) - 1) * size
        if path == "/offset":
            return int(query.get("offset", "0"))
        after = query.get("cursor") or query.get("after") or ""
        return bisect_right(self.items, after, key=lambda item: str(item["id"])) if after else 0

    def _after(self, answer: Answer) -> str:
        assert answer.next is not None
        last = self.items[answer.next - 1]
        return str(last["id"])

    def body_of(self, path: str, answer: Answer) -> bytes:
        """What an answer is as JSON."""
        more = answer.next is not None
        told = {
            "data": answer.items,
            "next": self._after(answer) if more else None,
            "has_more": more,
            "total": answer.total,
        }
        return json.dumps(answer.items if path == "/all" else told).encode()


class _Server(ThreadingHTTPServer):
    provider: Provider
    daemon_threads = True
    request_queue_size = 64


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body in one packet, or each answer waits for an ACK
    server: _Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        provider = self.server.provider
        self._send(provider.answer(parts.path, query, headers), provider)

    def do_POST(self) -> None:
        """A token, for whoever knows the client's secret."""
        provider = self.server.provider
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        provider.asked_for_tokens.append((self.headers["Authorization"], form))
        told = json.dumps({"access_token": provider.token}).encode()
        self._send(Answer([], 0, None, 0, body=told), provider)

    def _send(self, answer: Answer, provider: Provider) -> None:
        with provider.lock:
            provider.under_way += 1
            provider.most_at_once = max(provider.most_at_once, provider.under_way)
        if answer.silent or provider.delay:
            provider.ends.wait(answer.silent or provider.delay)
        with provider.lock:
            provider.under_way -= 1
        data = answer.body or b""
        if answer.reset:
            linger = b"\1\0\0\0\0\0\0\0"
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()
            self.close_connection = True
            return
        with suppress(OSError):
            self.send_response_only(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.declared:
                self.send_header("Content-Length", str(len(data)))
            else:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data if answer.cut is None else data[: answer.cut])
        if answer.cut is not None or not answer.declared:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing."""


def grants(count: int, *, level: str = "basic") -> list[Item]:
    """So many grants, one an account, in an order of their own."""

    def made() -> Iterator[Item]:
        for number in range(count):
            account = f"acct-{(number * 7919) % count:05d}"
            yield {
                "id": f"g{number:05d}",
                "account_id": account,
                "entitlement": "login",
                "level": level,
            }

    return list(made())
