"""The Debian packages: what they hold and need, their settings by `baton config check`, their units by systemd."""

import os
import pathlib
import re
import shutil
import tempfile
import tomllib
import unittest

import packages

BIN = packages.BUILD / "bin"
ROLES = {"router": "router", "prefill": "prefill-1", "decode": "decode-1"}
EXPOSURE_MAX = 15  # tenths, of the 10 that `systemd-analyze security` gives a unit without any protection


def fields(package):
    """{name: value} of the package's control file."""
    text = packages.call("dpkg-deb", "--field", package).stdout
    return {name: " ".join(value.split()) for name, value in re.findall(r"^(\S+): ((?:.*)(?:\n .*)*)", text, re.M)}


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="baton-packages-")
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name) / "root"
        cls.packages = packages.cpack(pathlib.Path(folder.name) / "packages")
        for package in cls.packages.values():
            packages.call("dpkg-deb", "--extract", package, cls.root)
        cls.units = {role: cls.root / f"usr/lib/systemd/system/baton-{role}{'' if role == 'router' else '@'}.service"
                     for role in ROLES}

    def settings(self, role):
        return tomllib.loads((self.root / f"etc/baton/{ROLES[role]}.toml").read_text())

    def test_packages_are_of_this_version_and_name_their_libraries(self):
        self.assertEqual(sorted(self.packages), ["baton", "baton-demo-model"])
        version = packages.call(BIN / "baton", "version").stdout.split()[1]
        for package in self.packages.values():
            self.assertEqual(fields(package)["Version"], version)
            self.assertRegex(fields(package)["Description"], r"\w+ \w+")
        known = fields(self.packages["baton"])
        for library in ("libc6", "libgrpc++1.51", "libssl3", "libgomp1"):
            self.assertIn(library, known["Depends"])
        self.assertEqual(known["Conflicts"], "baton-cuda")
        self.assertEqual(fields(self.packages["baton-demo-model"])["Architecture"], "all")

    def test_every_file_belongs_to_root_and_settings_survive_an_upgrade(self):
        for package in self.packages.values():
            for line in packages.call("dpkg-deb", "--contents", package).stdout.splitlines():
                mode, owner = line.split()[:2]
                self.assertEqual(owner, "root/root", line)
                self.assertNotIn("w", mode[4:], line)
        kept = packages.call("dpkg-deb", "--info", self.packages["baton"], "conffiles").stdout.split()
        here = [f"/{path.relative_to(self.root)}" for path in (self.root / "etc").rglob("*") if path.is_file()]
        self.assertEqual(sorted(kept), sorted(here))

    def test_programs_are_stripped_and_start(self):
        for name in ("baton", "baton-router", "baton-prefill", "baton-decode"):
            program = self.root / "usr/bin" / name
            self.assertNotIn(".symtab", packages.call("readelf", "--section-headers", program).stdout)
            packages.call(program, "--help")

    def test_notices_of_what_is_compiled_in_come_along(self):
        text = (self.root / "usr/share/doc/baton/THIRD-PARTY").read_text()
        for name in ("tokenizers", "minijinja", "safetensors", "llguidance"):
            self.assertRegex(text, rf"(?m)^crate {name} \d")
        for package in ("nlohmann-json3-dev", "libcli11-dev"):
            self.assertIn(f"\nDebian package {package}\n", text)
        self.assertIn("MIT License", text)

    def test_settings_are_accepted_and_fit_together(self):
        # Nothing is installed here, so the model lies where the packages were unpacked.
        for role, name in ROLES.items():
            packages.call(BIN / "baton", "config", "check", role, self.root / f"etc/baton/{name}.toml",
                          self.root / self.settings(role)["model-dir"].lstrip("/"))
        ports = [self.settings(role)[port] for role in ROLES for port in ("port", "admin-port", "http-port")
                 if port in self.settings(role)]
        self.assertEqual(len(set(ports)), len(ports))
        for role in ("prefill", "decode"):
            self.assertEqual(self.settings("router")[f"{role}-workers"], f"127.0.0.1:{self.settings(role)['port']}")
        for role in ROLES:
            model = self.root / self.settings(role)["model-dir"].lstrip("/")
            packages.call(BIN / "baton", "model", "inspect", model)

    def test_units_run_what_the_packages_hold(self):
        for role, unit in self.units.items():
            text = unit.read_text()
            found = re.search(r"^ExecStart=(\S+) --config=(\S+)$", text, re.M)
            self.assertTrue((self.root / found[1].lstrip("/")).exists(), found[1])
            self.assertTrue((self.root / found[2].replace("%i", "1").lstrip("/")).exists(), found[2])
            # Or systemd would kill what still answers.
            drain = int(self.settings(role)["drain-timeout"].removesuffix("s"))
            self.assertGreater(int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.M)[1]), drain + 5)
            user = re.search(r"^User=(\w+)$", text, re.M)[1]
            self.assertRegex((self.root / "usr/lib/sysusers.d/baton.conf").read_text(), rf"(?m)^u {user} ")
            for place in ("StateDirectory", "CacheDirectory"):
                for folder in re.findall(rf"^{place}=(\w+)$", text, re.M):
                    self.assertEqual(folder, "baton")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not in the PATH (Debian: systemd)")
    def test_units_mean_something_to_systemd_and_protect_the_machine(self):
        folder = self.root / "units"
        folder.mkdir(exist_ok=True)
        for unit in self.units.values():
            # It looks whether the program is there.
            here = folder / unit.name
            here.write_text(unit.read_text().replace("=/usr/bin/", f"={self.root}/usr/bin/"))
            with self.subTest(unit.name):
                said = packages.call("systemd-analyze", "verify", "--man=no", here)
                about = [line for line in said.stderr.splitlines() if "baton" in line]
                self.assertEqual(about, [])
                judged = packages.call("systemd-analyze", "security", "--offline=yes",
                                       f"--threshold={EXPOSURE_MAX}", here)
                print(judged.stdout.splitlines()[-1], flush=True)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not in the PATH (Debian: systemd)")
    def test_a_unit_with_a_mistake_is_found(self):
        wrong = self.root / "baton-wrong.service"
        wrong.write_text(self.units["router"].read_text().replace("Restart=", "Restrat="))
        said = packages.call("systemd-analyze", "verify", "--man=no", wrong, check=False).stderr
        self.assertIn("Restrat", said)


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C.UTF-8"
    unittest.main()
