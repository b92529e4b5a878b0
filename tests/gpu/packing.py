"""The command behind tests/gpu/pack."""

import argparse
import concurrent.futures
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import build

PROGRAMS = ("baton", "baton-router", "baton-prefill", "baton-decode", "bench_kernels", "bench_cuda_moves")
# Of the C library and the driver: always those of the machine.
OF_THE_MACHINE = re.compile(r"^(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|anl|nsl|BrokenLocale|cuda|"
                            r"nvidia-.*))\.so(\.\d+)*$")
# At most: one window over all programs, so that kernels that stand in several count once.
WINDOW_BYTES = 192 << 20


class PackError(Exception):
    """What went wrong, and what to do."""


def call(command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False,
                            timeout=3600, **options)
    if result.returncode != 0:
        raise PackError(f"{' '.join(map(str, command))} ended with {result.returncode}:\n"
                        f"{(result.stderr or result.stdout).strip()[-3000:]}")
    return result.stdout


def wanted_tests(folder):
    return [test for test in build.ctest_tests(folder) if "gpu" in test.labels]


def build_all(folder):
    names = [*PROGRAMS, *(test.name for test in wanted_tests(folder))]
    print(f"building {len(names)} programs in {folder}", file=sys.stderr)
    call(["cmake", "--build", folder, "--target", *names])


def executables(folder):
    """(path, place in the pack) of everything that is run."""
    tests = wanted_tests(folder)
    if not tests:
        raise PackError(f"{folder} has no tests of label gpu; expected a build of preset cuda with tests")
    found = [(folder / "bin" / name, f"bin/{name}") for name in PROGRAMS]
    found += [(pathlib.Path(test.path), f"tests/{test.name}") for test in tests]
    missing = [str(path) for path, _ in found if not path.exists()]
    if missing:
        raise PackError(f"not built: {', '.join(missing)}; leave out --no-build, and configure with tests and "
                        "benchmarks")
    return found


def needed(path):
    """{name: path} of the shared libraries that the loader takes for `path`, all levels."""
    libraries = {}
    for line in call(["ldd", path]).splitlines():
        name, _, rest = line.strip().partition(" => ")
        name = pathlib.Path(name.split(" ")[0]).name
        if OF_THE_MACHINE.match(name):
            continue
        if rest.startswith("not found") or not rest.startswith("/"):
            raise PackError(f"{path} needs {name}, which the loader does not find here")
        libraries[name] = pathlib.Path(rest.rsplit(" (", 1)[0])
    return libraries


def strip(source, target, option):
    target.parent.mkdir(parents=True, exist_ok=True)
    call(["strip", option, "-o", target, source])
    target.chmod(0o755)


def fill(folder, stage):
    """Copies programs and libraries into `stage`; {place: bytes}."""
    found = executables(folder)
    libraries = {}
    for path, _ in found:
        libraries.update(needed(path))
    jobs = [(path, stage / place, "--strip-all") for path, place in found]
    jobs += [(path, stage / "lib" / name, "--strip-unneeded") for name, path in sorted(libraries.items())]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: strip(*job), jobs))
    return {str(target.relative_to(stage)): target.stat().st_size for _, target, _ in jobs}


def check_closure(stage):
    """Checks that nothing but the C library is missing when only the pack's libraries are looked at."""
    own = {path.name for path in (stage / "lib").iterdir()}
    for path in [*stage.glob("*/*")]:
        for name in re.findall(r"\(NEEDED\).*\[(.+)\]", call(["readelf", "-d", path])):
            if name not in own and not OF_THE_MACHINE.match(name):
                raise PackError(f"{path.name} needs {name}, which is not in the pack")


def cuda_of(folder):
    """Version of the compiler and the architectures, from the build tree's cache."""
    cache = (folder / "CMakeCache.txt").read_text()
    found = dict(re.findall(r"^(BATON_CUDA_ARCHITECTURES|CMAKE_CUDA_COMPILER|BATON_CUDA):\w+=(.*)$", cache, re.M))
    if found.get("BATON_CUDA") != "ON":
        raise PackError(f"{folder} was configured without CUDA; expected preset cuda")
    version = ""
    for compiler in folder.glob("CMakeFiles/*/CMakeCUDACompiler.cmake"):
        match = re.search(r'CMAKE_CUDA_COMPILER_VERSION "([^"]+)"', compiler.read_text())
        version = match[1] if match else version
    return {"nvcc": version, "architectures": found.get("BATON_CUDA_ARCHITECTURES", "")}


def write_manifest(folder, stage):
    tests = [{"name": test.name, "labels": list(test.labels)} for test in wanted_tests(folder)]
    info = {"commit": build.git_commit(), "cuda": cuda_of(folder),
            "c_library": os.confstr("CS_GNU_LIBC_VERSION")}
    (stage / build.MANIFEST).write_text(json.dumps({"info": info, "tests": tests}, indent=1) + "\n")


def compress(stage, out):
    """Writes the pack so that the same files give the same bytes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    members = [stage / build.MANIFEST, *sorted(stage.glob("*/*"))]
    # A window takes eleven times its size of memory here, and its size where it is unpacked.
    window = max(1 << 20, min(WINDOW_BYTES, sum(path.stat().st_size for path in members)))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 3, "dict_size": window}]
    with lzma.open(out, "wb", filters=filters) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for path in members:
            member = tarfile.TarInfo(str(path.relative_to(stage)))
            member.size, member.mode = path.stat().st_size, 0o755 if path.parent != stage else 0o644
            with open(path, "rb") as content:
                archive.addfile(member, content)


def tree_bytes():
    """The bytes of the files that travel with the tree: tracked ones, and those that git does not ignore."""
    try:
        names = call(["git", "-C", build.ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        paths = [build.ROOT / name for name in names.split("\0") if name]
    except (PackError, OSError):  # no clone: all but what is built
        paths = [path for path in build.ROOT.rglob("*")
                 if path.relative_to(build.ROOT).parts[0] not in ("build", ".git")]
    return sum(path.lstat().st_size for path in paths if path.is_file())


def mib(size):
    return f"{size / 2**20:7.1f} MiB"


def main(arguments, description):
    parser = argparse.ArgumentParser(prog="tests/gpu/pack", description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(build.ROOT / "build/cuda"), help="a build tree of preset cuda")
    parser.add_argument("--out", default=str(build.PACK))
    parser.add_argument("--limit-mib", type=float, default=64, help="of the pack and the tree together [64]")
    parser.add_argument("--no-build", action="store_true", help="take the programs as they are")
    options = parser.parse_args(arguments)
    folder, out = pathlib.Path(options.build).resolve(), pathlib.Path(options.out).resolve()
    try:
        return pack(folder, out, options)
    except (PackError, build.BuildError, OSError, subprocess.SubprocessError) as error:
        print(f"tests/gpu/pack: {error}", file=sys.stderr)
        return 1


def pack(folder, out, options):
    for tool in ("strip", "readelf", "ldd"):
        if shutil.which(tool) is None:
            raise PackError(f"{tool} is not in the PATH (Debian: binutils, libc-bin)")
    if not (folder / "CMakeCache.txt").exists():
        raise PackError(f"{folder} is no build tree; type: cmake --preset cuda")
    cuda_of(folder)
    if not options.no_build:
        build_all(folder)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        stage = pathlib.Path(temporary)
        (stage / "lib").mkdir()
        sizes = fill(folder, stage)
        check_closure(stage)
        write_manifest(folder, stage)
        compress(stage, out)
    for kind in ("bin", "tests", "lib"):
        mine = {place: size for place, size in sizes.items() if place.startswith(kind + "/")}
        print(f"{mib(sum(mine.values()))}  {kind}, {len(mine)} files, stripped")
    tree, packed = tree_bytes(), out.stat().st_size
    print(f"{mib(packed)}  {out}, compressed\n{mib(tree)}  tracked and unignored files\n"
          f"{mib(packed + tree)}  travel; limit {options.limit_mib:g} MiB")
    if packed + tree > options.limit_mib * 2**20:
        out.unlink()
        raise PackError(f"what travels is {(packed + tree) / 2**20:.1f} MiB, over the limit of {options.limit_mib:g} "
                        "MiB; the pack was removed")
    return 0
