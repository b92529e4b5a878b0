"""The Job of deploy/batch: what Kubernetes takes, whose parts are one input, and whose command lines run."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from cluster import BIN, DEMO_MODEL, PATIENCE_S  # noqa: E402

LINES = 21


class BatchJobTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.job = yaml.safe_load((ROOT / "deploy/batch/job.yaml").read_text())
        cls.pod = cls.job["spec"]["template"]["spec"]
        [cls.container] = cls.pod["containers"]

    def test_kubernetes_takes_it(self):
        try:
            import kube_schemas  # pylint: disable=import-outside-toplevel
        except SystemExit:
            self.skipTest("the schemas of Kubernetes are not there; scripts/kube_tools makes them, with Go")
        self.assertEqual(len(kube_schemas.versions()), 3)
        for version in kube_schemas.versions():
            self.assertEqual(kube_schemas.errors(self.job, version), [])
        wrong = json.loads(json.dumps(self.job))
        wrong["spec"]["completionsMode"] = "Indexed"
        self.assertIn("completionsMode", kube_schemas.errors(wrong, kube_schemas.versions()[-1])[0])

    def test_there_are_as_many_parts_as_pods(self):
        self.assertEqual(self.job["spec"]["completionMode"], "Indexed")
        self.assertIn(f"--part=index/{self.job['spec']['completions']}", self.container["args"])
        self.assertIn("$(JOB_COMPLETION_INDEX)", self.container["args"][2])

    def test_the_policy_names_the_container(self):
        named = [rule["onExitCodes"]["containerName"] for rule in self.job["spec"]["podFailurePolicy"]["rules"]
                 if "onExitCodes" in rule]
        self.assertEqual(named, [self.container["name"]])
        self.assertEqual(self.pod["restartPolicy"], "Never")  # else there may be no such policy

    def test_volumes_and_mounts_fit(self):
        self.assertEqual(sorted(volume["name"] for volume in self.pod["volumes"]),
                         sorted(mount["name"] for mount in self.container["volumeMounts"]))

    def arguments(self, index, folder):
        """The command line as the kubelet expands it, with this machine's folders."""
        line = [*self.container["command"], *self.container["args"]]
        self.assertEqual(line[0], "baton")
        places = {"$(JOB_COMPLETION_INDEX)": str(index), "/data/": f"{folder}/", "/models/demo": str(DEMO_MODEL),
                  "--kv-cache-memory=2GiB": "--kv-cache-memory=64MiB"}
        for found, ours in places.items():
            self.assertTrue(any(found in word for word in line), found)
            line = [word.replace(found, ours) for word in line]
        return [str(BIN / "baton"), *line[1:], "--threads=1"]

    def test_its_command_lines_answer_each_line_once(self):
        with tempfile.TemporaryDirectory(prefix="baton-job-") as name:
            folder = pathlib.Path(name)
            lines = [{"custom_id": f"r{i}", "method": "POST", "url": "/v1/completions",
                      "body": {"prompt": f"A fox {i}", "max_tokens": 4, "seed": i}} for i in range(LINES)]
            (folder / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            running = [subprocess.Popen(self.arguments(index, folder), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True,
                                        env=dict(os.environ, JOB_COMPLETION_INDEX=str(index)))
                       for index in range(self.job["spec"]["completions"])]
            for process in running:
                _, err = process.communicate(timeout=PATIENCE_S)
                self.assertEqual(process.returncode, 0, err)
            answers = [json.loads(line) for path in sorted(folder.glob("out-*.jsonl"))
                       for line in path.read_text().splitlines()]
            self.assertEqual(sorted(one["custom_id"] for one in answers), sorted(one["custom_id"] for one in lines))
            self.assertEqual({one["response"]["status_code"] for one in answers}, {200})


if __name__ == "__main__":
    unittest.main()
