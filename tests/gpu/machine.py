"""The GPU of this machine and the libraries that its toolkit, or its Python's packages, have."""

import ctypes
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

# What our binaries look up at run time, by the dynamic linker's name.
CUBLASLT, NCCL, CUDART = "libcublasLt.so.13", "libnccl.so.2", "libcudart.so.13"
QUERY = ("name", "driver_version", "compute_cap", "memory.total", "memory.free", "clocks.max.sm",
         "clocks.max.mem", "power.limit", "persistence_mode", "compute_mode")


class CudaError(Exception):
    """What the driver refused."""


class NoGpu(Exception):
    """Why there is none, and what to do."""


def run(command, timeout_s=60, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False,
                          **options)


def find_gpu():
    """What nvidia-smi says of the first GPU; NoGpu."""
    advice = "use --device cpu for a dry run"
    if shutil.which("nvidia-smi") is None:
        raise NoGpu(f"no GPU found: nvidia-smi is not in the PATH; {advice}")
    result = run(["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"])
    lines = [line for line in result.stdout.splitlines() if line.count(",") == len(QUERY) - 1]
    if result.returncode != 0 or not lines:
        said = (result.stderr + result.stdout).strip().splitlines()
        raise NoGpu(f"no GPU found by nvidia-smi ({said[0] if said else 'it said nothing'}); {advice}")
    gpu = dict(zip(QUERY, (cell.strip() for cell in lines[0].split(","))))
    gpu["count"] = len(lines)
    return gpu


def hold_devices(nodes=None):
    """Opens the device files of the GPUs and keeps them open, so that the driver does not leave a GPU, and set it up
    anew for the next process, each time that the last process on it ends. Makes no context and changes no setting.
    """
    held = []
    for node in sorted(pathlib.Path("/dev").glob("nvidia[0-9]*")) if nodes is None else nodes:
        try:
            held.append(os.open(node, os.O_RDWR | os.O_CLOEXEC))
        except OSError as error:
            print(f"{node} cannot be held open: {error}", file=sys.stderr)
    return held


def driver(name="libcuda.so.1"):
    """The CUDA driver's library; CudaError."""
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise CudaError(f"{name} does not load: {error}") from error


def make_context(library):
    """Makes a context on the first GPU in this process with the driver's library; (seconds of cuInit, seconds of
    the context), CudaError."""
    def call(name, *arguments):
        try:
            result = getattr(library, name)(*arguments)
        except AttributeError as error:
            raise CudaError(f"the driver's library has no {name}") from error
        if result != 0:
            text = ctypes.c_char_p()
            library.cuGetErrorString(result, ctypes.byref(text))
            raise CudaError(f"{name} answers {result}, {(text.value or b'an unknown error').decode()}")
    begin = time.monotonic()
    call("cuInit", 0)
    initialised = time.monotonic()
    context = ctypes.c_void_p()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    made = time.monotonic()
    call("cuDevicePrimaryCtxRelease_v2", 0)
    return initialised - begin, made - initialised


def read_through(paths):
    """Reads files to their end, so that they stand in memory; (bytes, seconds)."""
    begin, size = time.monotonic(), 0
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while block := file.read(1 << 24):
                size += len(block)
    return size, time.monotonic() - begin


def library_folders():
    """(folder, where it comes from): toolkits first, then Python's packages, then the loader's own."""
    roots = [(os.environ["CUDA_HOME"], "CUDA_HOME")] if os.environ.get("CUDA_HOME") else []
    roots.append(("/usr/local/cuda", "/usr/local/cuda"))
    for root, origin in roots:
        for below in ("lib64", "lib", "targets/x86_64-linux/lib"):
            yield pathlib.Path(root) / below, origin
    for site in map(pathlib.Path, sys.path):
        for folder in sorted(site.glob("nvidia/*/lib")):
            package = folder.parent.name
            yield folder, f"Python's packages (nvidia/{package})"
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if folder:
            yield pathlib.Path(folder), "LD_LIBRARY_PATH"
    cache = run(["ldconfig", "-p"]).stdout if shutil.which("ldconfig") else ""
    for folder in dict.fromkeys(re.findall(r"=> (/\S+)/[^/]+$", cache, re.M)):
        yield pathlib.Path(folder), "the loader's cache"


def find_libraries(names=(CUBLASLT, NCCL, CUDART), folders=None):
    """{name: (path, origin)} of those that are there."""
    found = {}
    for folder, origin in folders if folders is not None else library_folders():
        for name in names:
            if name not in found and (folder / name).exists():
                found[name] = (folder / name, origin)
    return found


# How each library tells its version, and how that number is written.
def _cublaslt(library):
    library.cublasLtGetVersion.restype = ctypes.c_size_t
    number = library.cublasLtGetVersion()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _nccl(library):
    number = ctypes.c_int()
    library.ncclGetVersion(ctypes.byref(number))
    return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"


def _cudart(library):
    number = ctypes.c_int()
    library.cudaRuntimeGetVersion(ctypes.byref(number))
    return f"{number.value // 1000}.{number.value % 1000 // 10}"


READERS = {CUBLASLT: _cublaslt, NCCL: _nccl, CUDART: _cudart}


def version_of(name, path):
    """Loads the library into this process; so only a process that does nothing else with it may ask."""
    try:
        return READERS[name](ctypes.CDLL(str(path)))
    except (OSError, AttributeError) as error:
        return f"does not load: {error}"


def package_version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def tool(name):
    """Path of a tool of the toolkit, in the PATH or in the toolkit's folder, or None."""
    found = shutil.which(name)
    for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if found is None and root and os.access(f"{root}/bin/{name}", os.X_OK):
            found = f"{root}/bin/{name}"
    return found


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def memory_gib():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) / (1 << 20)
    return 0.0
