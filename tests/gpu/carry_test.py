"""What tests/gpu/run finds on a machine, and what tests/gpu/pack brings there."""

import contextlib
import functools
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import build  # noqa: E402
import machine  # noqa: E402
import packing  # noqa: E402
import test_folder  # noqa: E402


class Machine(test_folder.Folder):
    def test_no_nvidia_smi(self):
        self.set_environment(PATH=str(self.folder))
        with self.assertRaisesRegex(machine.NoGpu, "nvidia-smi is not in the PATH; use --device cpu"):
            machine.find_gpu()

    def test_nvidia_smi_without_a_gpu(self):
        self.write_program("nvidia-smi", "#!/bin/sh\necho No devices were found\nexit 6\n")
        self.set_environment(PATH=f"{self.folder}:/usr/bin:/bin")
        with self.assertRaisesRegex(machine.NoGpu, "No devices were found.*--device cpu"):
            machine.find_gpu()

    def test_a_gpu(self):
        self.write_program("nvidia-smi", "#!/bin/sh\necho NVIDIA H200, 580.1, 9.0, 143771, 143000, 1980, 3201, 700.00, "
                           "Disabled, Default\n")
        self.set_environment(PATH=f"{self.folder}:/usr/bin:/bin")
        gpu = machine.find_gpu()
        self.assertEqual((gpu["name"], gpu["compute_cap"], gpu["count"]), ("NVIDIA H200", "9.0", 1))
        self.assertEqual((gpu["persistence_mode"], gpu["compute_mode"]), ("Disabled", "Default"))

    def test_device_files_are_held_open_and_others_are_named(self):
        node = self.folder / "nvidia0"
        node.touch()
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            held = machine.hold_devices([node, self.folder / "nvidia1"])
        self.assertEqual([os.readlink(f"/proc/self/fd/{file}") for file in held], [str(node)])
        self.assertIn("nvidia1 cannot be held open", said.getvalue())
        for file in held:
            os.close(file)

    @staticmethod
    def driver(**results):
        """A driver whose functions answer 0, or what is said of them."""
        def name_error(_, text):
            text._obj.value = b"no CUDA-capable device is detected"
        names = ("cuInit", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2")
        return types.SimpleNamespace(cuGetErrorString=name_error, **{
            name: functools.partial(lambda result, *_: result, results.get(name, 0)) for name in names})

    def test_a_context_is_made_or_the_call_that_failed_is_named(self):
        self.assertGreaterEqual(min(machine.make_context(self.driver())), 0)
        for name in ("cuInit", "cuDevicePrimaryCtxRetain"):
            with self.assertRaisesRegex(machine.CudaError, f"^{name} answers 100, no CUDA-capable device is detected$"):
                machine.make_context(self.driver(**{name: 100}))
        with self.assertRaisesRegex(machine.CudaError, "has no cuInit"):
            machine.make_context(types.SimpleNamespace())
        with self.assertRaisesRegex(machine.CudaError, "^libnothing.so.1 does not load: "):
            machine.driver("libnothing.so.1")

    def test_files_are_read_to_their_end(self):
        (self.folder / "large").write_bytes(bytes(40 << 20))
        size, seconds = machine.read_through([self.folder / "large", self.folder / "large"])
        self.assertEqual(size, 80 << 20)
        self.assertGreater(seconds, 0)

    def test_the_first_folder_with_a_library_wins(self):
        for name in ("a", "b"):
            (self.folder / name).mkdir()
            (self.folder / name / machine.NCCL).touch()
        (self.folder / "b" / machine.CUBLASLT).touch()
        found = machine.find_libraries(folders=[(self.folder / "a", "toolkit"), (self.folder / "b", "packages")])
        self.assertEqual(found, {machine.NCCL: (self.folder / "a" / machine.NCCL, "toolkit"),
                                 machine.CUBLASLT: (self.folder / "b" / machine.CUBLASLT, "packages")})

    def test_packages_of_python_are_looked_through(self):
        lib = self.folder / "nvidia/nccl/lib"
        lib.mkdir(parents=True)
        (lib / machine.NCCL).touch()
        self.addCleanup(sys.path.remove, str(self.folder))
        sys.path.append(str(self.folder))
        self.assertIn((lib, "Python's packages (nvidia/nccl)"), list(machine.library_folders()))

    def test_a_library_that_does_not_load_says_so(self):
        broken = self.folder / machine.NCCL
        broken.write_text("no library")
        self.assertIn("does not load", machine.version_of(machine.NCCL, broken))


class Packs(test_folder.Folder):
    def pack(self, names):
        file = self.folder / "p.tar.xz"
        manifest = {"info": {"commit": "abc"}, "tests": [{"name": "k_test", "labels": ["gpu"]}]}
        with tarfile.open(file, "w:xz") as archive:
            for name, data in {**names, build.MANIFEST: json.dumps(manifest).encode()}.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return file

    def test_a_pack_is_a_build(self):
        made = build.open_pack(self.pack({"bin/baton": b"b", "tests/k_test": b"t", "lib/libx.so": b"l"}),
                               self.folder / "into")
        self.assertEqual([test.name for test in made.labelled("gpu")], ["k_test"])
        self.assertEqual(made.program("k_test").read_bytes(), b"t")
        self.assertIsNone(made.program("other"))
        self.set_environment(LD_LIBRARY_PATH="/mine")
        environment = made.environment([pathlib.Path("/cuda/lib/a.so"), pathlib.Path("/cuda/lib/b.so")])
        self.assertEqual(environment["LD_LIBRARY_PATH"], f"{self.folder}/into/lib:/cuda/lib:/mine")

    def test_a_file_that_would_lie_elsewhere_is_refused(self):
        with self.assertRaisesRegex(build.BuildError, "holds ../x"):
            build.open_pack(self.pack({"../x": b""}), self.folder / "into")

    def test_a_broken_pack_is_named(self):
        file = self.folder / "p.tar.xz"
        file.write_bytes(b"no pack")
        with self.assertRaisesRegex(build.BuildError, "p.tar.xz cannot be unpacked.*tests/gpu/pack"):
            build.open_pack(file, self.folder / "into")

    def test_the_c_library_is_never_packed(self):
        for name in ("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "linux-vdso.so.1", "libcuda.so.1"):
            self.assertTrue(packing.OF_THE_MACHINE.match(name), name)
        for name in ("libcurl.so.4", "libgomp.so.1", "libstdc++.so.6", "libcares.so.2", "libmount.so.1"):
            self.assertFalse(packing.OF_THE_MACHINE.match(name), name)

    def fake_tree(self):
        """A build tree whose programs are all the same one, which needs a library beside the C library's."""
        program = pathlib.Path(shutil.which("sed")).resolve()
        (self.folder / "CMakeCache.txt").write_text("BATON_CUDA:BOOL=ON\nBATON_CUDA_ARCHITECTURES:STRING=90a-real\n")
        names = [*(f"bin/{name}" for name in packing.PROGRAMS), "tests/a_gpu_test"]
        for name in names:
            (self.folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(program, self.folder / name)
        (self.folder / "CTestTestfile.cmake").write_text("".join(
            f'add_test({name} "{self.folder}/tests/{name}")\n'
            f'set_tests_properties({name} PROPERTIES LABELS {label} DISABLED TRUE)\n'
            for name, label in (("a_gpu_test", "gpu"), ("other_test", "unit"))))

    def run_pack(self, *arguments):
        text, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(errors):
            code = packing.main(["--build", str(self.folder), "--out", str(self.folder / "p.tar.xz"), "--no-build",
                                 *arguments], "")
        return code, text.getvalue(), errors.getvalue()

    def test_a_tree_is_packed_with_its_libraries(self):
        self.fake_tree()
        code, text, errors = self.run_pack("--limit-mib", "100")
        self.assertEqual(code, 0, errors)
        self.assertIn("travel; limit 100 MiB", text)
        made = build.open_pack(self.folder / "p.tar.xz", self.folder / "into")
        self.assertEqual([test.name for test in made.labelled("gpu")], ["a_gpu_test"])
        self.assertTrue(list((self.folder / "into/lib").glob("lib*.so*")))
        self.assertEqual(made.info["cuda"]["architectures"], "90a-real")
        done = subprocess.run([made.program("a_gpu_test"), "s/a/b/"], input="cat", env=made.environment(),
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.stdout, "cbt", done.stderr)

    def test_what_is_over_the_limit_is_refused_and_removed(self):
        self.fake_tree()
        code, _, errors = self.run_pack("--limit-mib", "0.5")
        self.assertEqual(code, 1)
        self.assertRegex(errors, r"what travels is [\d.]+ MiB, over the limit of 0.5 MiB; the pack was removed")
        self.assertFalse((self.folder / "p.tar.xz").exists())

    def test_a_program_that_is_not_built_is_named(self):
        self.fake_tree()
        (self.folder / "bin/baton-decode").unlink()
        code, _, errors = self.run_pack()
        self.assertEqual(code, 1)
        self.assertIn("bin/baton-decode; leave out --no-build", errors)

    def test_a_build_tree_without_cuda_is_refused(self):
        (self.folder / "CMakeCache.txt").write_text("BATON_CUDA:BOOL=OFF\n")
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            code = packing.main(["--build", str(self.folder), "--out", str(self.folder / "p")], "")
        self.assertEqual(code, 1)
        self.assertIn("without CUDA; expected preset cuda", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
