"""From page to page of a listing, and how its end is known.

A *place* says which page is asked for next, as lossless JSON: it is kept with the pages that
were read, so that a run that was killed goes on there. What comes after a page the page itself
says; where it does not, the listing is not known to be complete, and nothing of it is used:

cursor   The answer names the next cursor (`next`), or its last item does (`last`, for APIs
         that say `more`). The end is where `more` is false, or the cursor is null or empty. One
         that is missing ends the listing only on a page with items, on the first, or when all came.
link     The next address stands in the `Link` header (RFC 8288), or in the answer (`next`). Once
         pages had such a header, a page without any is no last page.
offset   Pages overlap by one item, which has to be the same: where something was deleted or
         inserted before it meanwhile, items moved past the border between two pages. The end
         is where as many items were read as the answer says there are (`total`).
page     As offset, without the overlap: numbers of pages do not allow it.

An empty page that ends a listing without a total has to come twice (`reading.py`).

A `total` is held against the items that came, wherever it is given: it has to be the same on
every page. A page that comes a second time is no page, and no item may be on two pages: where one
is, another was passed over.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from ...errors import SourceUnusable
from ...json_paths import Missing, follow, parse_value
from ..json_text import kind_of
from ..sorting import encode
from .answers import Garbled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...http_config import PagingConfig
    from ...model import Json
    from .answers import Answered

_LINK = re.compile(r'<([^>]*)>((?:\s*;\s*[^\s=;,]+(?:\s*=\s*(?:"[^"]*"|[^\s";,]*))?)*)')
_REL = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^\s";,]*))', re.IGNORECASE)
_WHOLE = re.compile(r"\d{1,15}", re.ASCII)


class Inconsistent(Exception):
    """Pages that do not fit together: the listing is read again from its first page."""


class Place(NamedTuple):
    """Which page is next. `at`: None for the first, else a cursor, an address, or the number of
    a page or item. `items` is how many were read before it, `total` how many there are said to
    be, `edge` stands for the last item read. `linked`: pages had a Link header."""

    at: str | int | None = None
    items: int = 0
    total: int | None = None
    edge: str | None = None
    linked: bool = False

    @classmethod
    def of(cls, value: Json) -> Place:
        """A place as it was kept. Raises `TypeError` or `ValueError` for another's."""
        if not isinstance(value, list):
            raise TypeError("a place is a list")
        return cls(*value)


class Pager:
    """The pages of one listing, whose first address is `url`."""

    def __init__(self, paging: PagingConfig, url: str) -> None:
        self._paging = paging
        self._url = url

    def address(self, place: Place, size: int | None) -> str:
        """What to ask for. `size` is how many items, where that can be said."""
        paging = self._paging
        if paging.by == "link" and isinstance(place.at, str):
            return place.at
        query: list[tuple[str, str]] = []
        if paging.by != "none" and size is not None:
            query.append((paging.size_param, str(size)))
        if paging.by == "page":
            query.append((paging.param, str(self._number(place, size))))
        elif paging.by == "offset" and place.items:
            query.append((paging.param, str(place.items - 1)))
        elif paging.by == "cursor" and place.at is not None:
            query.append((paging.param, str(place.at)))
        return with_query(self._url, query)

    def ahead(self, place: Place, size: int | None) -> Iterator[str]:
        """The addresses of this page and those after it, as far as they can be known before it
        has come; none where the listing has no numbers."""
        if self._paging.by not in ("page", "offset") or size is None or place.total is None:
            return
        overlap = self._paging.by == "offset"
        items = place.items
        while items < place.total:
            yield self.address(place._replace(items=items), size)
            items += size - 1 if overlap and items else size

    def after(self, place: Place, page: Answered) -> tuple[Answered, Place | None]:
        """What of a page is new, and the place after it; None at the end of the listing.

        Raises `Garbled` for an answer that may be better when it is asked for again, and
        `Inconsistent`.
        """
        total = self._total(place, page)
        if self._paging.by == "offset" and place.items:
            page = _without_edge(place, page)
        items = place.items + len(page.items)
        edge = _digest(page.items[-1]) if page.items else place.edge
        linked = place.linked or "link" in page.headers
        following = Place(None, items, total, edge, linked)
        at = self._next(place, page, following)
        if at is not None:
            if at == place.at:
                raise Garbled(_told(page, f"it names itself as the next: {at!r}"))
            return page, following._replace(at=at)
        if total is not None and items != total:
            raise Inconsistent(f"{items:,} items came where the answer says {total:,}")
        return page, None

    def _total(self, place: Place, page: Answered) -> int | None:
        if self._paging.total is None:
            return None
        try:
            said = page.said(self._paging.total)
        except Missing as error:
            raise Garbled(_told(page, f"the answer {error}, which is its total")) from error
        if type(said) is not str or not _WHOLE.fullmatch(said):
            raise Garbled(_told(page, f"its total is {said!r}, no number"))
        total = int(said)
        if place.total is not None and total != place.total:
            raise Inconsistent(f"the total was {place.total:,} and is {total:,}")
        return total

    def _next(self, place: Place, page: Answered, following: Place) -> str | int | None:
        """Where the next page is; None where this was the last."""
        by = self._paging.by
        if by == "none":
            return None
        if by in ("page", "offset"):
            return self._next_number(place, page, following)
        more = self._more(page)
        if more is False:
            return None
        find = self._next_link if by == "link" else self._next_cursor
        at = find(place, page, following)
        if at is None and more:
            raise Garbled(_told(page, "it says that there is more, and not where"))
        return at

    def _more(self, page: Answered) -> bool | None:
        if self._paging.more is None:
            return None
        try:
            said = page.said(self._paging.more)
        except Missing as error:
            raise Garbled(_told(page, f"the answer {error}, which says whether it ends")) from error
        if type(said) is not bool:
            raise Garbled(_told(page, f"{self._paging.more} is {said!r}, neither true nor false"))
        return said

    def _next_cursor(self, place: Place, page: Answered, following: Place) -> str | None:
        paging = self._paging
        if paging.last is not None:
            if not page.items:
                return None  # `more` decides: it has to say false
            try:
                said = follow(page.items[-1], parse_value(paging.last).keys)
            except Missing as error:
                raise Garbled(_told(page, f"the last item {error}")) from error
        else:
            assert paging.next is not None, "the configuration says one of them"
            try:
                said = page.said(paging.next)
            except Missing as error:
                if page.items or place.at is None or following.items == following.total:
                    return None
                why = f"it is empty, and {error}: that is no end"
                raise Garbled(_told(page, why)) from error
        if said is None or said == "":
            return None
        if type(said) is not str:
            raise Garbled(_told(page, f"its next cursor is {kind_of(said)}"))
        return said

    def _next_link(self, place: Place, page: Answered, following: Place) -> str | None:
        paging = self._paging
        asked = self._url if place.at is None else str(place.at)
        if paging.next is not None:
            found = self._next_cursor(place, page, following)
        else:
            header = page.headers.get("link")
            if header is None and (place.linked or (place.at is not None and not page.items)):
                raise Garbled(_told(page, "it has no Link header as the pages before had"))
            found = next_link(header or "")
        if found is None:
            return None
        url = urljoin(asked, found)
        if urlsplit(url)[:2] != urlsplit(self._url)[:2]:
            raise Garbled(_told(page, f"its next page is on another host, {urlsplit(url)[1]}"))
        return url

    def _next_number(self, place: Place, page: Answered, following: Place) -> int | None:
        assert following.total is not None, "the configuration asks for it"
        if following.items >= following.total:
            return None
        if not page.items:
            raise Garbled(_told(page, "it is empty before all items came"))
        return self._number(place, None) + 1 if self._paging.by == "page" else following.items

    def _number(self, place: Place, size: int | None) -> int:
        """A page's number: by the items before it where their size is asked for, since that may
        have been halved."""
        if size is not None:
            return self._paging.first + place.items // size
        return place.at if isinstance(place.at, int) else self._paging.first

    def fits(self, place: Place, size: int) -> bool:
        """Whether pages of that size can be asked for where reading stands."""
        if size < (2 if self._paging.by == "offset" else 1):
            return False
        return self._paging.by != "page" or place.items % size == 0


def next_link(header: str) -> str | None:
    """The target of `rel="next"` in a Link header; None where there is none."""
    for match in _LINK.finditer(header):
        rel = _REL.search(match[2])
        if rel is not None and "next" in (rel[1] or rel[2] or "").lower().split():
            return match[1]
    return None


def with_query(url: str, query: list[tuple[str, str]]) -> str:
    """The address with these parameters, in place of its own of the same names."""
    if not query:
        return url
    parts = urlsplit(url)
    names = {name for name, _ in query}
    kept = [pair for pair in parse_qsl(parts.query, True) if pair[0] not in names]
    return urlunsplit(parts._replace(query=urlencode(kept + query)))


def digests(page: Answered) -> list[str]:
    """Stand for the items of a page, none twice."""
    return list(dict.fromkeys(map(_digest, page.items)))


def page_digest(found: list[str]) -> str:
    """Stands for a page, by the digests of its items."""
    return _digest(found)


def _without_edge(place: Place, page: Answered) -> Answered:
    """The page without the item that the page before had too."""
    if not page.items or _digest(page.items[0]) != place.edge:
        raise Inconsistent("items have moved between two pages: something was deleted or inserted")
    from dataclasses import replace

    first = page.items[0]
    # Items that hold further arrays are objects, each of which is itself only.
    nested = page.rows and len(page.rows[0]) > 1
    rest = [row for row in page.rows if row[0] is not first] if nested else page.rows[1:]
    return replace(page, rows=rest, items=page.items[1:])


def _digest(value: Any) -> str:
    return blake2b(encode(value).encode(), digest_size=8).hexdigest()


def _told(page: Answered, why: str) -> SourceUnusable:
    return SourceUnusable(
        f"{page.path}: {why}", hint="see source.paging, and whether the API is as it was"
    )
