"""The input of the demo: a stream of events, each with its line number, its key and its message.

Without INPUT the events are the lines of the machine's dpkg.log, oldest first, turned into JSON with key package:arch.
With INPUT they are the lines of a file: JSON objects (NDJSON) become jsonb messages, other text becomes raw bytes.
Files are streamed, blank lines are left out, and names ending in .gz are unpacked on the way.
"""

import glob
import gzip
import hashlib
import json
import os
import re
import zlib
from typing import Iterator, NamedTuple, Optional

DPKG_LOG = "/var/log/dpkg.log"
NO_KEY = "(none)"

# Candidates of a pop are found by a scan over the partitions in this version, so they should not be without number:
# beyond this many keys, several share a partition (a key stays in one, so its order is kept all the same).
MOST_PARTITIONS = 5000
SHARED_PARTITIONS = 1000


class InputError(Exception):
    """INPUT or KEY cannot be used; the message is for the user."""


class Event(NamedTuple):
    line: int
    size: int  # of the line, with its end
    key: str
    message: Optional[str]  # JSON text, or None ...
    payload: Optional[bytes]  # ... and then these bytes


def partition_of(key: str, shared: bool) -> str:
    """The partition of a key; the key itself where it may be a name."""
    raw = key.encode("utf-8", "replace")
    if shared:
        return f"bucket {zlib.crc32(raw) % SHARED_PARTITIONS:03d}"
    if 1 <= len(raw) <= 255 and key.isprintable():
        return key
    return "md5 " + hashlib.md5(raw).hexdigest()


def open_lines(path: str) -> Iterator[bytes]:
    """Lines of a file without their ends, blank ones too."""
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            for number, line in enumerate(file):
                if number == 0:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                yield line.rstrip(b"\r\n")
    except (OSError, EOFError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


class DpkgLog:
    """dpkg.log with its rotated predecessors."""

    kind = "log of the package manager"
    has_key = True
    key_name = "package:architecture"

    def __init__(self):
        def age(path):
            number = re.search(r"\.(\d+)(\.gz)?$", path)
            return int(number.group(1)) if number else 0

        self.files = sorted(glob.glob(DPKG_LOG + "*"), key=age, reverse=True)
        if not any(os.path.getsize(path) for path in self.files):
            raise InputError(f"there is no {DPKG_LOG} here, or it is empty: name a file, as in\n"
                             "  make demo INPUT=events.ndjson KEY=user.id\n  make demo INPUT=access.log KEY=1")

    def events(self) -> Iterator[Event]:
        line = 0
        for path in self.files:
            for raw in open_lines(path):
                line += 1
                if raw.strip():
                    event = self.parse(raw.decode("utf-8", "replace").replace("\0", "\ufffd").split())
                    message = json.dumps(event, ensure_ascii=False)
                    yield Event(line, len(raw) + 1, event.get("package", "dpkg"), message, None)

    @staticmethod
    def parse(word: list) -> dict:
        """date time status STATE PACKAGE VERSION, date time ACTION PACKAGE OLD NEW, or what concerns no package."""
        event = {"time": " ".join(word[:2]), "action": " ".join(word[2:3])}
        if event["action"] == "status" and len(word) >= 6:
            event.update(state=word[3], package=word[4], version=word[5])
        elif len(word) >= 6 and ":" in word[3]:
            event.update(package=word[3], old=word[4], new=word[5])
        else:
            event.update(rest=" ".join(word[3:]))
        return event

    @staticmethod
    def excerpt(text: str) -> str:
        event = json.loads(text)
        if "state" in event:
            what = f"-> {event['state']:<16} {event['version']}"
        elif "package" in event:
            what = f"{event['action']} {event['old']} {event['new']}"
        else:
            what = f"{event['action']} {event['rest']}"
        return f"{event['time']}  {what}"


class File:
    """A file that INPUT names: its events' common part."""

    def __init__(self, path: str, key: Optional[str]):
        self.files = [path]
        self.has_key = bool(key)
        self.key_name = key or "none, all in one partition"

    def lines(self) -> Iterator[tuple]:
        for line, raw in enumerate(open_lines(self.files[0]), 1):
            if raw.strip():
                yield line, raw

    @staticmethod
    def excerpt(text: str) -> str:
        line = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
        return line if len(line) <= 90 else line[:87] + "..."


class Ndjson(File):
    """One JSON object a line; KEY is a dotted path."""

    kind = "JSON objects, one a line"

    def __init__(self, path: str, key: Optional[str]):
        super().__init__(path, key)
        self.path = key.split(".") if key else None

    def events(self) -> Iterator[Event]:
        for line, raw in self.lines():
            try:
                text = raw.decode("utf-8")
                value = json.loads(text)
            except ValueError as error:
                raise InputError(f"{self.files[0]}, line {line} is not JSON, but its first line is: {error}") from None
            yield Event(line, len(raw) + 1, self.key_of(value, line) if self.path else NO_KEY, text, None)

    def key_of(self, value, line: int) -> str:
        for name in self.path:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, (dict, list)):
            raise InputError(f"{self.files[0]}, line {line}: KEY={'.'.join(self.path)} leads to an object or array, "
                             "not to a single value")
        if value is None:
            return NO_KEY
        return value if isinstance(value, str) else json.dumps(value)


class Text(File):
    """Any other file, line by line as bytes; KEY is the number of a column between white space."""

    kind = "lines of text"

    def __init__(self, path: str, key: Optional[str]):
        super().__init__(path, key)
        if key and not re.fullmatch(r"[1-9]\d{0,5}", key):
            raise InputError(f"KEY={key}: the lines of {path} are not JSON objects, so KEY must be the number of a "
                             "column, counted from 1, between white space")
        self.column = int(key) if key else None

    def events(self) -> Iterator[Event]:
        for line, raw in self.lines():
            yield Event(line, len(raw) + 1, self.key_of(raw) if self.column else NO_KEY, None, raw)

    def key_of(self, raw: bytes) -> str:
        words = raw.split(None, self.column)
        return words[self.column - 1].decode("utf-8", "replace") if len(words) >= self.column else NO_KEY


def open_source(path: Optional[str], key: Optional[str]):
    """The source that INPUT and KEY name."""
    if not path:
        if key:
            raise InputError(f"KEY={key} needs INPUT=file; the default input has its own key")
        return DpkgLog()
    if not os.path.isfile(path):
        raise InputError(f"INPUT={path} is not a file" if os.path.exists(path) else f"INPUT={path} does not exist")
    first = next((raw for raw in open_lines(path) if raw.strip()), None)
    if first is None:
        raise InputError(f"INPUT={path} has no lines")
    try:
        is_json = isinstance(json.loads(first), dict)
    except ValueError:
        is_json = False
    return (Ndjson if is_json else Text)(path, key)
