"""Other people's clients of the OpenAI protocol against the shipped binaries: openai for Python and for
Node, and LangChain's chat model. openai_clients_test.py python|langchain|node; exits 77 where that
client cannot be had (scripts/openai_clients says why)."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from cluster import PATIENCE_S, ROOT, Cluster

SCRIPTS = ROOT / "tests/e2e/openai_clients"
NOT_HERE = 77


def made(kind):
    """The folder with clients of that kind."""
    into = pathlib.Path(os.environ.get("BATON_OPENAI_CLIENTS", ROOT / "build/openai-clients"))
    result = subprocess.run([ROOT / "scripts/openai_clients", kind, "--into", into], text=True,
                            stdout=subprocess.PIPE, timeout=1200, check=False)
    if result.returncode != 0:
        sys.exit(result.returncode)
    return pathlib.Path(result.stdout.strip())


def command(client):
    if client == "node":
        folder = made("node")
        script = folder / "node_client.mjs"  # where it finds its modules
        script.write_text((SCRIPTS / "node_client.mjs").read_text())
        return ["node", script]
    return [made("python") / "bin/python", "-B", SCRIPTS / f"{client}_client.py"]


class ClientTest(unittest.TestCase):
    def test_the_client_finds_what_it_expects(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("clients:key-of-clients\n")
            keys.flush()
            self.check(Cluster(router_flags=["--http-port", "0", "--api-keys", keys.name]))

    def check(self, service):
        with service as cluster:
            environment = {key: value for key, value in os.environ.items()
                           if not key.startswith(("OPENAI_", "LANGCHAIN_", "LANGSMITH_"))}
            run = subprocess.run([*COMMAND, f"http://{cluster.router.ready['http']}/v1"], text=True,
                                 capture_output=True, stdin=subprocess.DEVNULL, env=environment,
                                 timeout=2 * PATIENCE_S, check=False)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            self.assertGreater(cluster.router.metrics().sum("baton_api_key_refusals_total"), 0)
            cluster.assert_nothing_held()


if __name__ == "__main__":
    COMMAND = command(sys.argv.pop(1))
    unittest.main()
