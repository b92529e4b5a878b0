"""The files of an EOS log that is rotated: FILE.N or FILE.N.zst, by number, then FILE."""

import contextlib
import io
import itertools
import os
import re
import time

from baton_analysis.errors import InputError

_PART = re.compile(r"(?P<file>.*[^/])\.(?P<number>[1-9][0-9]{0,17})(\.zst)?", re.DOTALL)
_ZST = ".zst"
_MAGIC = b"\x28\xb5\x2f\xfd"
_PIECE = 1 << 18
# A writer needs microseconds to put a new FILE in the place of a full one.
_OPEN_TRIES = 20
_OPEN_AGAIN_AFTER_S = 1e-3


@contextlib.contextmanager
def open_logs(names: list[str], beside: str = ""):
    """Every file that is to be read, in its order, as (path, its lines as bytes). FILE stands for
    all its parts and itself; FILE.N for this part alone, and several of one log come in the order
    of their numbers. With `beside` the lines are of the file whose name ends so beside each file,
    and None where there is none.

    FILE is open from the start, so that what it holds is read, whatever its writer calls it
    meanwhile; what is written anew is not."""
    with contextlib.ExitStack() as stack:
        logs = []
        for file, (live, parts) in _named(names).items():
            logs.append(_Log(file, live, parts, beside))
            stack.callback(logs[-1].close)
        yield itertools.chain.from_iterable(log.files() for log in logs)


def _named(names: list[str]) -> dict[str, tuple[bool, dict[int, str]]]:
    """FILE -> (is FILE itself named, {number: path of a part that is named})."""
    logs = {}
    for name in names:
        part = _PART.fullmatch(name)
        file = part["file"] if part else name
        live, parts = logs.get(file, (False, {}))
        if part:
            parts[int(part["number"])] = name
        logs[file] = (live or not part, parts)
    return logs


class _Log:
    """One log, FILE of which is open."""

    def __init__(self, file: str, live: bool, parts: dict[int, str], beside: str):
        self._file, self._live, self._beside = file, live, beside
        self._parts = parts
        self._lines = None  # of FILE, until they are given away
        if live:
            self._open()

    def close(self):
        if self._lines is not None:
            self._lines.close()

    def files(self):
        begun = False
        for number in sorted(self._parts):
            path, lines = _open_first(_names_of(self._parts[number], self._beside))
            if lines is None and not self._beside:
                if not self._live or begun:
                    raise InputError(f"{path} was removed before it was read; expected all parts "
                                     "of a log. Keep more of them (--eos-log-files), or try again")
                continue  # the writer keeps so many; what it removed is as if never asked for
            begun = True
            yield self._parts[number] if self._beside else path, lines
        lines, self._lines = self._lines, None
        # A router that was killed while it rotated leaves parts only.
        if lines is not None or self._live and (not self._parts or os.path.exists(self._file)):
            yield self._file, lines

    def _open(self):
        for attempt in range(_OPEN_TRIES):
            if attempt > 0:
                time.sleep(_OPEN_AGAIN_AFTER_S)
            before = max(_parts_of(self._file), default=0)
            names = _names_of(self._file, self._beside) if self._beside else [self._file]
            path, self._lines = _open_first(names)
            self._parts = _parts_of(self._file)
            if self._lines is None and not self._beside:
                if not self._parts:
                    raise InputError(f"{path} cannot be read: no such file; "
                                     "give the file that --eos-log names")
                continue  # between two files, or left so by a router that was killed
            if max(self._parts, default=0) == before:
                return
            self.close()
        if self._lines is not None:
            raise InputError(f"{self._file} is rotated faster than it can be opened; "
                             "give it a larger --eos-log-max-size")


def _names_of(path: str, beside: str) -> list[str]:
    """A part may be compressed between the moment when it was found and that when it is read."""
    plain = path.removesuffix(_ZST) + beside
    names = [plain, plain + _ZST]
    return names[::-1] if path.endswith(_ZST) and not beside else names


def _open_first(names: list[str]) -> tuple[str, io.BufferedReader | None]:
    """The first of these that is there."""
    for path in names:
        try:
            return path, open_lines(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error}; "
                             "give the file that --eos-log names") from error
    return names[0], None


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
