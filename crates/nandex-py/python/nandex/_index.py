"""Indexes as mappings, sorted by key."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import MutableMapping
from typing import Any, Callable, Iterator, List, Optional, Tuple, Union

from . import _native

#: Records that a walk takes at a time.
_CHUNK = 256

Path = Union[str, "os.PathLike[str]"]


class Kind:
    """How keys or values become bytes that sort as they do, and back."""

    def __init__(self, name: str, size: int, pack: Callable[[Any], bytes], unpack: Callable[[bytes], Any]) -> None:
        self.name = name
        self.size = size
        self.pack = pack
        self.unpack = unpack


def _bytes_of(size: int) -> Callable[[Any], bytes]:
    def pack(value: Any) -> bytes:
        data = bytes(value)
        if len(data) != size:
            raise _native.RequestError(f"{len(data)} bytes where the index has {size}")
        return data

    return pack


def _text_of(size: int) -> Callable[[Any], bytes]:
    def pack(value: Any) -> bytes:
        data = value.encode()
        if len(data) > size or data.endswith(b"\0"):
            raise _native.RequestError(f"{value!r} is no text of at most {size} bytes in UTF-8 without a 0 at its end")
        return data.ljust(size, b"\0")

    return pack


def _number_of(size: int, signed: bool) -> Tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    # With its sign turned a negative number sorts before a positive one.
    offset = 1 << (8 * size - 1) if signed else 0

    def pack(value: Any) -> bytes:
        try:
            return (value.__index__() + offset).to_bytes(size, "big")
        except (AttributeError, OverflowError):
            word = "signed" if signed else "unsigned"
            raise _native.RequestError(f"{value!r} is no {word} number of {8 * size} bits") from None

    return pack, lambda data: int.from_bytes(data, "big") - offset


def kind(name: str) -> Kind:
    """The kind of this name: u8 to u64, i8 to i64, f64, bytes:N, text:N."""
    number = re.fullmatch(r"([ui])(8|16|32|64)", name)
    sized = re.fullmatch(r"(bytes|text):(\d{1,3})", name)
    if number:
        size = int(number[2]) // 8
        return Kind(name, size, *_number_of(size, number[1] == "i"))
    if name == "f64":
        return Kind(name, 8, lambda value: struct.pack(">d", value), lambda data: struct.unpack(">d", data)[0])
    if sized and int(sized[2]) <= 255:
        size = int(sized[2])
        if sized[1] == "bytes":
            return Kind(name, size, _bytes_of(size), bytes)
        return Kind(name, size, _text_of(size), lambda data: data.rstrip(b"\0").decode())
    raise _native.RequestError(
        f"'{name}' is no kind; known: u8, u16, u32, u64, i8 to i64, f64, bytes:N, text:N with N up to 255"
    )


class Index(MutableMapping):
    """An index of records with unique keys, sorted by key; made by ``nandex.open``.

        with nandex.open("mu", chip="w25n01gv") as index:
            index[7] = 70
            index[7], 8 in index, list(index.range(0, 100))
    """

    def __init__(self, raw: _native.RawIndex, key: Kind, value: Kind, count: Optional[int]) -> None:
        self._raw = raw
        self._key = key
        self._value = value
        self._count = count

    def __getitem__(self, key: Any) -> Any:
        found = self._raw.get(self._key.pack(key))
        if found is None:
            raise KeyError(key)
        return self._value.unpack(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._changed(self._raw.insert, (self._key.pack(key), self._value.pack(value)), 1)

    def __delitem__(self, key: Any) -> None:
        if not self._changed(self._raw.remove, (self._key.pack(key),), -1):
            raise KeyError(key)

    def _changed(self, change: Callable[..., bool], arguments: Tuple[bytes, ...], by: int) -> bool:
        count, self._count = self._count, None
        existed = change(*arguments)
        # After an error nobody knows whether it was done.
        if count is not None:
            self._count = count + (by if existed == (by < 0) else 0)
        return existed

    def __contains__(self, key: object) -> bool:
        return self._raw.get(self._key.pack(key)) is not None

    def __len__(self) -> int:
        """The number of records. It is counted once, by reading all, where the index was there before."""
        if self._count is None:
            self._count = self._raw.count()
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.range())

    def __reversed__(self) -> Iterator[Any]:
        return (key for key, _ in self.range(descending=True))

    def items(self) -> Any:  # type: ignore[override]
        """The records in the order of their keys."""
        return _Items(self)

    def range(
        self, low: Any = None, high: Any = None, *, descending: bool = False, limit: Optional[int] = None
    ) -> Iterator[Tuple[Any, Any]]:
        """Records from ``low`` (with it) up to ``high`` (without it), as pairs; None has no bound.

        Records may be changed meanwhile: what lies ahead is seen as it is then.
        """
        lower = None if low is None else (self._key.pack(low), True)
        upper = None if high is None else (self._key.pack(high), False)
        return self._walk(lower, upper, descending, limit)

    def _walk(self, lower: Any, upper: Any, descending: bool, limit: Optional[int]) -> Iterator[Tuple[Any, Any]]:
        while limit is None or limit > 0:
            most = _CHUNK if limit is None else min(_CHUNK, limit)
            if lower and upper and lower[0] >= upper[0] and not (lower[1] and upper[1]):
                return
            records: List[Tuple[bytes, bytes]] = self._raw.range(lower, upper, descending, most)
            for key, value in records:
                yield self._key.unpack(key), self._value.unpack(value)
            if len(records) < most:
                return
            last = (records[-1][0], False)
            lower, upper = (lower, last) if descending else (last, upper)
            limit = None if limit is None else limit - len(records)

    def sync(self) -> None:
        """Makes every change before survive a power cut."""
        self._raw.sync()

    def save(self) -> None:
        """Writes the image file now, as the chip is; ``close`` does it too."""
        self._raw.save()

    def close(self) -> None:
        """Syncs, leaves the chip so that the next mount is cheapest, and writes the image file."""
        self._raw.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._raw.closed

    def __enter__(self) -> Index:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.close()

    def cut(self, after: int = 0, *, when: str = "inside", torn: str = "prefix", seed: int = 1) -> None:
        """Plans a power cut at the ``after``-th change of the simulated chip from now on, counted from 0.

        when   "before", "inside" or "after" the program or erase
        torn   what is left of one cut inside: "prefix", "random_bits", "unreadable", "looks_erased"

        The operation that it strikes raises ``PowerLost``; then ``mount`` finds what recovery finds.
        """
        self._raw.cut(after, when, torn, seed)

    def power_off(self) -> None:
        """Switches the simulated chip off now: every operation raises ``PowerLost`` until ``mount``."""
        self._raw.power_off()

    def mount(self) -> None:
        """Forgets what is in RAM, switches the power on and finds the index again on the chip."""
        self._count = None
        self._raw.mount()

    def costs(self) -> dict[str, Any]:
        """What the simulated chip did since it was made: page reads, programs, block erases (also by cause),
        ``flash_time_ns``, ``energy_nj``."""
        return json.loads(self._raw.costs())

    def stats(self) -> dict[str, Any]:
        """Figures of the index: levels, pages with live data, cache hits, ``ram_bytes``, its durability."""
        return json.loads(self._raw.stats())

    def check(self) -> List[str]:
        """Walks over the whole index and names every broken invariant; none when it is sound."""
        return self._raw.check()

    def __repr__(self) -> str:
        state = "closed " if self.closed else ""
        return f"<{state}Index {self._key.name} -> {self._value.name}>"


class _Items:
    """Records of an index, read as they are walked over."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def __iter__(self) -> Iterator[Tuple[Any, Any]]:
        return self._index.range()

    def __reversed__(self) -> Iterator[Tuple[Any, Any]]:
        return self._index.range(descending=True)

    def __len__(self) -> int:
        return len(self._index)


def open(
    index: str = "mu",
    *,
    chip: Optional[str] = None,
    blocks: Optional[int] = None,
    image: Optional[Path] = None,
    device: Optional[Path] = None,
    page_bytes: int = 4096,
    key: str = "u64",
    value: str = "u64",
    ram: Union[None, int, str] = None,
    durability: str = "every-operation",
    options: Optional[dict[str, Any]] = None,
    format: Optional[bool] = None,
    overwrite: bool = False,
) -> Index:
    """Opens an index as a sorted mapping.

    index       its name (``nandex.indexes()``)
    chip        a simulated chip in memory: a part (``nandex.chips()``) or a chip file; "mlc-64m" when left out
    blocks      another number of blocks than the part has
    image       a file that keeps the simulated chip: mounted where it is there, made where it is not, written
                by ``close``
    device      an MTD or block device, or a file of pages of ``page_bytes`` bytes: mounted, or formatted
                where it is blank. ``format=False`` mounts only; ``format=True`` makes a new index, and refuses
                what holds something unless ``overwrite=True``
    key, value  kinds: "u8" to "u64", "i8" to "i64", "bytes:N", "text:N" (N bytes at most); values also "f64"
    ram         bytes, or text such as "64KiB", tables included; no cache when left out
    durability  "every-operation", "every-sync" or "none": what survives a power cut
    options     of the index, its FTL and its cache: ``{"ftl": "dftl", "cache": "cflru"}``
    """
    if key == "f64":
        raise _native.RequestError("f64 is a kind of values: as bytes its numbers do not sort")
    if device is not None and (chip is not None or image is not None or blocks is not None):
        raise _native.RequestError("a device has neither chip, blocks nor image")
    kinds = kind(key), kind(value)
    if kinds[0].size == 0:
        raise _native.RequestError("a key has at least one byte")
    is_new = device is None and (image is None or not os.path.exists(image) or bool(format and overwrite))
    place = {
        "chip": chip,
        "blocks": blocks,
        "image": None if image is None else os.fspath(image),
        "device": None if device is None else os.fspath(device),
        "page_bytes": page_bytes,
        "format": format,
        "overwrite": overwrite,
    }
    set_options = {name: str(setting) for name, setting in (options or {}).items()}
    raw = _native.RawIndex(
        index,
        place,
        (kinds[0].size, kinds[1].size),
        None if ram is None else str(ram),
        durability,
        set_options,
    )
    return Index(raw, *kinds, 0 if is_new or format else None)
