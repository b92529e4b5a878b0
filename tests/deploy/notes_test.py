"""What `helm install` prints can be typed: flags, services and deployments are there."""

import json
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

import chart


def notes(values, settings=()):
    """The text of NOTES.txt. `helm template` does not print it, so it is made a value of a manifest."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "baton"
        shutil.copytree(chart.CHART, copy)
        (copy / "templates/NOTES.txt").rename(copy / "notes.txt")
        (copy / "templates/notes.yaml").write_text(
            'kind: Notes\nmetadata: {name: notes}\ntext: |{{ tpl (.Files.Get "notes.txt") . | nindent 2 }}\n')
        documents = chart.manifests(chart.render([values], settings, chart=copy))
    return chart.find(documents, "Notes")["text"], documents


class NotesTest(unittest.TestCase):
    def test_commands_can_be_typed(self):
        for name, values in chart.VALUE_SETS.items():
            with self.subTest(name):
                text, documents = notes(values)
                names = {(one["kind"].lower(), one["metadata"]["name"]) for one in documents}
                mentioned = re.findall(r"(service|deployment)/([a-z0-9-]+)", text)
                self.assertGreaterEqual(len(mentioned), 4)
                self.assertLessEqual(set(mentioned), names)
                for command in re.findall(r"^  baton (.*)$", text, re.M):
                    words = shlex.split(command)
                    result = subprocess.run([str(chart.BIN / "baton"), "config", "print", *words],
                                            capture_output=True, text=True, timeout=60, check=False)
                    self.assertEqual(result.returncode, 0, result.stderr)
                hosts = re.findall(r"([a-z0-9-]+)\.llm\.svc:(\d+)", text)
                ports = {(one["metadata"]["name"], str(port["port"])) for one in documents
                         if one["kind"] == "Service" for port in one["spec"]["ports"]}
                self.assertEqual(len(hosts), 3)
                self.assertLessEqual(set(hosts), ports)
                [curl] = re.findall(r"^  (curl .*/v1/.*)$", text, re.M)
                self.assertEqual(json.loads(shlex.split(curl)[-1])["max_tokens"], 20)

    def test_who_is_kept_out_is_told(self):
        shut = "networkPolicy.clients has no ipBlock, so callers that are no pods do not get through the service of type"
        everything = chart.VALUE_SETS["everything"]
        pods = ["networkPolicy.clients[0].podSelector.matchLabels.a=b"]
        self.assertIn(f"{shut} NodePort", notes(everything, pods)[0])
        self.assertIn(f"{shut} LoadBalancer", notes(everything, [*pods, "router.service.type=LoadBalancer"])[0])
        for fits in ([], [*pods, "networkPolicy.clients[1].ipBlock.cidr=10.0.0.0/8"],
                     [*pods, "router.service.type=ClusterIP"], [*pods, "networkPolicy.enabled=false"]):
            self.assertNotIn(shut, notes(everything, fits)[0], fits)

    def test_what_is_open_is_told(self):
        plain, _ = notes(chart.VALUE_SETS["cpu"])
        self.assertIn("gRPC and HTTP are in plain text and ask nobody who they are", plain)
        self.assertNotIn("$BATON_API_KEY", plain)
        self.assertNotIn("-plaintext", notes(chart.VALUE_SETS["many-users-many-gpus"])[0])
        everything, _ = notes(chart.VALUE_SETS["everything"])
        self.assertIn("by NCCL in the clear", everything)
        self.assertIn('"Authorization: Bearer $BATON_API_KEY"', everything)
        self.assertIn("https://llm.example.org/v1", everything)


if __name__ == "__main__":
    unittest.main()
