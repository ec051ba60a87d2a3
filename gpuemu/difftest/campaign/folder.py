"""A campaign's state on disk: `campaign.json`, and one line in `results.jsonl` for every chunk.

Lines are appended and flushed to the disk before the next batch counts as begun. A process that is
killed leaves at most a last line that is not whole: it is cut off, and its chunk run again.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

from ...errors import BadFile, BadValue
from .campaign import Campaign
from .records import Record

CAMPAIGN, RESULTS, LOCK = "campaign.json", "results.jsonl", "lock"
CHUNK = re.compile(r'\{"chunk":([0-9]+),')  # as a record's line begins


class Folder:
    """A folder that one process at a time writes; a context that holds its lock.

    Attributes
    ----------
    path : Path
    campaign : Campaign
    """

    def __init__(self, path: Path, campaign: Campaign) -> None:
        self.path, self.campaign = path, campaign
        self._file: int | None = None
        self._lock: int | None = None

    @staticmethod
    def create(path: Path, campaign: Campaign) -> Folder:
        """Make the folder of a new campaign.

        Raises
        ------
        BadFile
            Where it cannot be made.
        BadValue
            Where a campaign is in it already.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path, encoding="utf-8") as file:
                file.write(campaign.to_json())
                file.flush()
                os.fsync(file.fileno())
                os.link(file.name, path / CAMPAIGN)  # whole, or not at all
        except FileExistsError:
            raise BadValue(
                f"{path} holds a campaign already: `gpuemu diff --resume {path}` goes on with it"
            ) from None
        except OSError as error:
            raise BadFile(f"{path}: cannot be written: {error.strerror or error}") from None
        return Folder(path, campaign)

    @staticmethod
    def open(path: Path) -> Folder:
        """Return the folder of a campaign that was begun.

        Raises
        ------
        BadFile
            Where there is none, or its file is wrong.
        """
        name = path / CAMPAIGN
        try:
            text = name.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(f"{name}: cannot be read: {error}") from None
        return Folder(path, Campaign.from_json(text, str(name)))

    def __enter__(self) -> Folder:
        """Lock the folder, and cut off a line that a killed process left torn."""
        try:
            self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._close()
            raise BadValue(f"{self.path}: another campaign is writing there") from None
        except OSError as error:
            self._close()
            raise BadFile(f"{self.path}: cannot be locked: {error.strerror or error}") from None
        results = self.path / RESULTS
        try:
            self._file = os.open(results, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            os.ftruncate(self._file, _whole(results))
        except OSError as error:
            self._close()
            raise BadFile(f"{results}: cannot be opened: {error.strerror or error}") from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the lock back."""
        self._close()

    def _close(self) -> None:
        for handle in (self._file, self._lock):
            if handle is not None:
                os.close(handle)
        self._file = self._lock = None

    def append(self, records: Iterable[Record]) -> None:
        """Add records, and return when they are on the disk.

        Raises
        ------
        BadFile
            Where the disk is full or gone; what was there before stays.
        """
        assert self._file is not None, "the folder is not locked"
        data = b"".join(record.to_json().encode() + b"\n" for record in records)
        before = os.fstat(self._file).st_size
        try:
            while data:
                data = data[os.write(self._file, data) :]
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, before)
            raise BadFile(
                f"{self.path / RESULTS}: cannot be written: {error.strerror}; what was finished "
                f"is there, and `gpuemu diff --resume {self.path}` goes on"
            ) from None

    def records(self) -> Iterator[Record]:
        """Yield the record of every finished chunk; the last one where a chunk has several.

        Raises
        ------
        BadFile
            Naming the line and the field that is wrong.
        """
        seen: set[int] = set()
        again: dict[int, tuple[str, str]] = {}
        for chunk, line in self._lines():
            if chunk in seen:
                again[chunk] = line
            seen.add(chunk)
        for chunk, line in self._lines():
            if chunk in seen:
                seen.remove(chunk)
                yield Record.from_json(*again.get(chunk, line))

    def done(self) -> frozenset[int]:
        """Return the numbers of the finished chunks."""
        return frozenset(chunk for chunk, _ in self._lines())

    def _lines(self) -> Iterator[tuple[int, tuple[str, str]]]:
        """Yield the chunk of every whole line, the line, and its place."""
        name = self.path / RESULTS
        if not name.exists():
            return
        with name.open(encoding="utf-8", errors="backslashreplace") as file:
            for number, line in enumerate(file, 1):
                if line.endswith("\n"):
                    where = f"{name}, line {number}"
                    begin = CHUNK.match(line)  # to read a line whole takes ten times as long
                    chunk = int(begin[1]) if begin else Record.from_json(line, where).chunk
                    yield chunk, (line, where)


def _whole(path: Path) -> int:
    """Return the length of a file up to the end of its last whole line."""
    size = path.stat().st_size
    with path.open("rb") as file:
        for end in range(size, 0, -4096):
            start = max(end - 4096, 0)
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                return start + at + 1
    return 0
