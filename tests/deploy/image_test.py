"""The image, run: the three services as user 65532 on a root that is only read, from their packaged settings.

The image is made by deploy/docker/make_image from packages of this build. No container runtime is needed: mounts,
namespaces and a switch are made as one makes them (container.py). Services of compose.yaml run by their commands,
variables, volumes and health checks; its Prometheus and Grafana do not, whose images cannot be had here.
"""

import concurrent.futures
import json
import os
import pathlib
import tempfile
import unittest

import compose_test
import container
import packages
import schemas

SETTINGS = "/etc/baton"
ROLES = {"decode": f"{SETTINGS}/decode-1.toml", "prefill": f"{SETTINGS}/prefill-1.toml",
         "router": f"{SETTINGS}/router.toml"}
USER = 65532
FOLDER = None
IMAGE = None
LONG = 1500  # tokens of an answer that is under way when the router is told to end


def setUpModule():
    global FOLDER, IMAGE  # pylint: disable=global-statement
    container.check()
    folder = tempfile.TemporaryDirectory(prefix="baton-image-")
    unittest.addModuleCleanup(folder.cleanup)
    FOLDER = pathlib.Path(folder.name)
    made = packages.cpack(FOLDER / "packages")
    packages.call("dpkg-deb", "--extract", made["baton-demo-model"], FOLDER / "demo")
    IMAGE = packages.Image(FOLDER / "packages", FOLDER)
    container.own_network()


class ImageCase(unittest.TestCase):
    """Has the image, made once for all, and a folder."""

    @classmethod
    def setUpClass(cls):
        cls.folder, cls.image = FOLDER, IMAGE


class ImageTest(ImageCase):
    def start(self, role, port, state):
        """The command of the unit. What the image says of ports holds for one service per network, not here."""
        command = [f"baton-{role}", f"--config={ROLES[role]}", f"--port={port}", f"--admin-port={port + 100}",
                   *([f"--eos-log={state[1]}/eos.jsonl"] if role == "router" else [])]
        started = container.Container(
            role, self.image, command, self.folder,
            [(self.folder / "demo/usr/share/baton/models/demo", "/models", "ro"), (*state, "rw")],
            {"BATON_MODEL_DIR": "/models", "BATON_ADDRESS": f"127.0.0.1:{port}"})
        self.addCleanup(started.kill)
        return started.wait_ready().wait_healthy()

    def test_services_run_as_nobody_on_a_read_only_root_and_drain(self):
        state = (self.folder / "state", "/var/lib/baton")
        # As a new volume takes it over from the image.
        owner = (self.image.files / "var/lib/baton").stat()
        self.assertEqual((owner.st_uid, owner.st_gid), (USER, USER))
        state[0].mkdir()
        os.chown(state[0], owner.st_uid, owner.st_gid)
        services = {role: self.start(role, port, state)
                    for role, port in (("decode", 50053), ("prefill", 50052), ("router", 50051))}
        for role, service in services.items():
            with self.subTest(role):
                self.assertEqual(set(service.status("Uid")), {str(USER)})
                self.assertEqual(service.status("CapEff"), ["0" * 16])
                self.assertEqual(service.status("NSpid")[-1], "1")
                with self.assertRaises(OSError):
                    service.mounted("/usr/bin/new").touch()
        answer = services["router"].run("baton", "generate", "--prompt", "Tell me a story", "--max-tokens", "8",
                                        "--eos", "mask", "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr + services["router"].tail())
        result = json.loads(answer.stdout)
        self.assertEqual(result["usage"]["completion_tokens"], 8)
        self.assertTrue(result["workers"]["prefill"], "the prefill worker had nothing to do")

        left = {role: sorted(path.name for path in service.mounted("/tmp").iterdir())
                for role, service in services.items()}
        self.assertEqual(left, {role: [] for role in services})
        self.drain(services)
        rows = [json.loads(line) for line in (state[0] / "eos.jsonl").read_text().splitlines()]
        self.assertEqual(len(rows), 8 + LONG)
        self.assertEqual((state[0] / "eos.jsonl").stat().st_uid, USER)

    def drain(self, services):
        """Ends all, the router while it answers."""
        def ask():
            # Beside a worker: what is beside PID 1 ends with it.
            return services["decode"].run("baton", "generate", f"--server={services['router'].grpc}", "--prompt",
                                          "Tell me a story", f"--max-tokens={LONG}", "--eos=mask", "--json")

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(ask)
            container.wait_until(lambda: services["router"].metrics().sum("baton_requests_inflight") > 0,
                                 "the request to be under way")
            self.assertEqual(services["router"].terminate(), 0, services["router"].tail())
            self.assertEqual(answer.result().returncode, 0, answer.result().stderr)
            self.assertEqual(json.loads(answer.result().stdout)["usage"]["completion_tokens"], LONG)
        for role in ("prefill", "decode"):
            self.assertEqual(services[role].terminate(), 0, services[role].tail())

    def test_health_is_bad_while_nobody_listens(self):
        alone = container.Container("alone", self.image, ["baton-router", f"--config={ROLES['router']}", "--port=0",
                                                          "--admin-port=0"], self.folder,
                                    [(self.folder / "demo/usr/share/baton/models/demo", "/models", "ro")],
                                    {"BATON_MODEL_DIR": "/models"})
        self.addCleanup(alone.kill)
        alone.wait_ready()
        self.assertEqual(alone.run("baton", "probe").returncode, 1)
        self.assertEqual(alone.terminate(), 0)

    def test_nothing_in_it_is_a_shell_or_runs_as_root(self):
        programs = sorted(path.name for folder in ("usr/bin", "usr/sbin")
                          for path in (self.image.files / folder).iterdir())
        self.assertEqual(programs, ["baton", "baton-decode", "baton-prefill", "baton-router"])
        raised = [str(path) for path in self.image.files.rglob("*")
                  if not path.is_symlink() and path.stat().st_mode & 0o6000]
        self.assertEqual(raised, [])
        self.assertEqual(self.image.settings["User"], f"{USER}:{USER}")
        size = sum(path.lstat().st_size for path in self.image.files.rglob("*") if path.is_file())
        print(f"the image's files have {size / 2**20:.0f} MiB", flush=True)
        self.assertLess(size, 256 * 2**20)

    def test_all_that_it_holds_stands_in_the_bill_of_materials(self):
        bill = json.loads((self.image.files / "usr/share/doc/baton/sbom.cdx.json").read_text())
        names = {part["name"] for part in bill["components"]}
        unpacked = {path.name for path in (self.image.files / "var/lib/dpkg/status.d").iterdir()}
        self.assertEqual(unpacked - {"baton"} - names, set())
        self.assertLessEqual({"libgrpc++1.51", "libssl3", "tokenizers", "minijinja"}, names)
        for part in bill["components"][1:]:
            licence = self.image.files / "usr/share/doc" / part["name"] / "copyright"
            self.assertTrue(part["purl"].startswith("pkg:cargo/") or licence.exists(), part["name"])
        if not schemas.FOLDER.exists():
            self.skipTest(schemas.MISSING)
        self.assertEqual(schemas.errors(bill, "bom-1.5.schema.json"), [])
        bill["components"][3]["type"] = "gadget"
        self.assertEqual(len(schemas.errors(bill, "bom-1.5.schema.json")), 1)


class ComposeTest(ImageCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not container.bridge():
            raise unittest.SkipTest("SKIPPED: this kernel lets nobody make bridges")

    def volume(self, mount):
        """A folder for a volume; new ones take over whose the image's folder is."""
        if mount["type"] == "bind":
            return ((packages.DOCKER / mount["source"]).resolve(), mount["target"], "ro")
        place = self.folder / mount["source"]
        place.mkdir()
        owner = (self.image.files / mount["target"].lstrip("/")).stat()
        os.chown(place, owner.st_uid, owner.st_gid)
        return (place, mount["target"], "rw")

    def test_services_find_each_other_are_healthy_and_answer_the_load(self):
        services = compose_test.ours(compose_test.read()["services"])
        names = compose_test.in_order(services)
        hosts = {name: f"{container.SUBNET}.{10 + index}" for index, name in enumerate(names)}
        running = {}
        for name in names:
            service = services[name]
            self.assertEqual(service["user"], self.image.settings["User"])
            running[name] = container.Container(
                name, self.image, service["command"], self.folder, list(map(self.volume, service.get("volumes", []))),
                service.get("environment"), hosts[name], hosts)
            self.addCleanup(running[name].kill)
            if not service.get("healthcheck", {}).get("disable"):
                running[name].wait_ready().wait_healthy()
        router = running["router"]
        container.wait_until(lambda: router.metrics().sum("baton_request_success_total") >= 4,
                             f"answers to the load\n{running['load'].tail()}")
        self.assertTrue(running["load"].running(), running["load"].tail())
        self.assertGreater(running["prefill"].metrics().sum("baton_kv_transfer_bytes_count"), 0)
        self.assertGreater((self.folder / "eos-log/eos.jsonl").stat().st_size, 0)
        for name in reversed(names):
            code = running[name].terminate(int(services[name]["stop_grace_period"].removesuffix("s")))
            if name != "load":
                self.assertEqual(code, 0, running[name].tail())


if __name__ == "__main__":
    unittest.main()
