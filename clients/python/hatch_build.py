"""How the package is built: its version is that of the repository, its stubs come from the protos.

In the repository both are looked up two folders above. A source distribution has copies: the protos in `proto`,
the version in PKG-INFO.
"""

import pathlib
import re
import tempfile
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
PROTOS = ("baton/v1/inference.proto", "baton/v1/model.proto")
STUBS = "baton_client/_stubs"


def version() -> str:
    told = HERE / "PKG-INFO"
    if told.exists():
        pattern, source = r"(?m)^Version: (\S+)$", told
    else:
        pattern, source = r"project\(baton VERSION (\S+)", REPOSITORY / "CMakeLists.txt"
    found = re.search(pattern, source.read_text(encoding="utf-8"))
    if not found:
        raise ValueError(f"{source} names no version: expected a match of {pattern}")
    return found[1]


def proto_root() -> pathlib.Path:
    return HERE / "proto" if (HERE / "PKG-INFO").exists() else REPOSITORY / "proto"


def generate(into: pathlib.Path) -> list[pathlib.Path]:
    """Writes the stubs and their types as modules of one package; returns the files.

    protoc names modules by the path of the proto. Inside our package they have another, so that no module
    `baton` of somebody else can hide them; only imports are changed, not what goes over the wire.
    """
    import grpc_tools
    from grpc_tools import protoc

    root = proto_root()
    with tempfile.TemporaryDirectory() as folder:
        well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
        outputs = [f"--{kind}_out={folder}" for kind in ("python", "grpc_python")]
        outputs += [f"--{kind}_out=quiet:{folder}" for kind in ("mypy", "mypy_grpc")]
        if protoc.main(["protoc", f"-I{root}", f"-I{well_known}", *outputs, *PROTOS]) != 0:
            raise RuntimeError(f"protoc refused the protos in {root}: its message stands above")
        into.mkdir(parents=True, exist_ok=True)
        package = into / "__init__.py"
        package.write_text('"""Generated from proto/baton/v1."""\n', encoding="utf-8")
        files = [package]
        for file in sorted(pathlib.Path(folder, "baton/v1").iterdir()):
            text = file.read_text(encoding="utf-8")
            text = re.sub(r"\bbaton\.v1\.(?=\w+_pb2)", "baton_client._stubs.", text)
            text = text.replace("from baton.v1 import", "from baton_client._stubs import")
            files.append(into / file.name)
            files[-1].write_text(text, encoding="utf-8")
    return files


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # Run by hand, to have the stubs in the tree for an editor or mypy.
    pass
else:

    class StubsHook(BuildHookInterface):  # type: ignore[type-arg,misc]
        """Adds the stubs to a wheel, and what they are made from to a source distribution."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            include = build_data["force_include"]
            if self.target_name == "sdist":
                for name in PROTOS:
                    include[str(proto_root() / name)] = f"proto/{name}"
                if not (HERE / "LICENSE").exists():
                    include[str(REPOSITORY / "LICENSE")] = "LICENSE"
                return
            if version == "editable":
                generate(HERE / "src" / STUBS)
                return
            self._folder = tempfile.TemporaryDirectory()
            for file in generate(pathlib.Path(self._folder.name)):
                include[str(file)] = f"{STUBS}/{file.name}"
            if not (HERE / "LICENSE").exists():  # In a source distribution hatchling finds it.
                licenses = f"baton_client-{self.metadata.version}.dist-info/licenses"
                include[str(REPOSITORY / "LICENSE")] = f"{licenses}/LICENSE"

        def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
            if hasattr(self, "_folder"):
                self._folder.cleanup()


if __name__ == "__main__":
    generate(HERE / "src" / STUBS)
