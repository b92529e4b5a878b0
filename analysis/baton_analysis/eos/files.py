"""The files of an EOS log that is rotated: FILE.N or FILE.N.zst, by number, then FILE."""

import io
import os
import re

from baton_analysis.errors import InputError

_PART = re.compile(r"(?P<file>.*[^/])\.(?P<number>[1-9][0-9]{0,17})(\.zst)?", re.DOTALL)
_ZST = ".zst"
_MAGIC = b"\x28\xb5\x2f\xfd"
_PIECE = 1 << 18


def files_of(names: list[str]) -> list[str]:
    """Every file that is to be read, in its order. FILE stands for all its parts and itself;
    FILE.N for this part alone, and several of one log come in the order of their numbers."""
    logs = {}  # FILE -> (is FILE itself named, {number: path of a part that is named})
    for name in names:
        part = _PART.fullmatch(name)
        file = part["file"] if part else name
        live, parts = logs.get(file, (False, {}))
        if part:
            parts[int(part["number"])] = name
        logs[file] = (live or not part, parts)
    found = []
    for file, (live, parts) in logs.items():
        if live:
            parts = _parts_of(file)
        found += [parts[number] for number in sorted(parts)]
        # A router that was killed while it rotated leaves parts only.
        if live and (os.path.exists(file) or not parts):
            found.append(file)
    return found


def summaries_of(file: str) -> str | None:
    """The file with the summaries that stand beside a file of rows, if there is one."""
    plain = file.removesuffix(_ZST) + ".requests.jsonl"
    return next((path for path in (plain, plain + _ZST) if os.path.exists(path)), None)


def open_lines(path: str) -> io.BufferedReader:
    """The file as bytes, whether it is compressed or not."""
    file = open(path, "rb", buffering=_PIECE)
    try:
        if not path.endswith(_ZST) and file.peek(len(_MAGIC))[:len(_MAGIC)] != _MAGIC:
            return file
        return io.BufferedReader(_Frames(path, file), buffer_size=1 << 20)
    except BaseException:
        file.close()
        raise


def _parts_of(file: str) -> dict[int, str]:
    folder, name = os.path.split(os.path.realpath(file) if os.path.islink(file) else file)
    parts = {}
    if not os.path.isdir(folder or "."):
        return parts
    for entry in os.listdir(folder or "."):
        part = _PART.fullmatch(entry)
        if part is None or part["file"] != name:
            continue
        number = int(part["number"])
        # Where both are there, the plain one is whole.
        if number not in parts or not entry.endswith(_ZST):
            parts[number] = os.path.join(folder, entry)
    return parts


class _Frames(io.RawIOBase):
    """What zstd frames hold, one behind the other."""

    def __init__(self, path, file):
        try:
            import zstandard
        except ImportError as error:
            raise InputError(
                f"{path} is compressed, and this Python has no zstandard; type: apt-get install "
                "python3-zstandard, or pip install zstandard, or zstd -d FILE") from error
        self._zstandard = zstandard
        self._path, self._file = path, file
        self._frame = None  # under way
        self._packed = b""  # not given to it yet
        self._ready = b""
        self._begun = False

    def readable(self):
        return True

    def close(self):
        self._file.close()
        super().close()

    def readinto(self, buffer):
        while not self._ready:
            if not self._packed:
                self._packed = self._file.read(_PIECE)
            if not self._packed:
                if self._frame is None and self._begun:
                    return 0
                raise InputError(
                    f"{self._path}: its zstd frame has no end: the file was cut off after "
                    f"{self._file.tell()} bytes; expected a whole frame. What stands before that "
                    "place can be read by zstd -dc")
            self._ready = self._unpack()
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _unpack(self) -> bytes:
        self._begun = True
        if self._frame is None:
            self._frame = self._zstandard.ZstdDecompressor().decompressobj()
        try:
            ready = self._frame.decompress(self._packed)
        except self._zstandard.ZstdError as error:
            raise InputError(f"{self._path} is damaged: {error}; expected zstd frames") from error
        self._packed = b""
        if self._frame.eof:
            self._packed = self._frame.unused_data
            self._frame = None
        return memoryview(ready)
