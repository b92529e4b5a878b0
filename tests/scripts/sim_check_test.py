"""scripts/sim_check.py with a `baton` that only pretends: what lies between steps, and that nothing is left behind."""

import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import sim_check  # noqa: E402

# A service that is ready at once, and a load that never ends. Each says who it is.
FAKE_BATON = """#!/bin/sh
echo $$ > "$(dirname "$0")/$1.new" && mv "$(dirname "$0")/$1.new" "$(dirname "$0")/$1.pid"
if [ "$1" = serve ]; then
  echo '{"grpc": "127.0.0.1:1", "workers": [{"role": "decode", "admin": "127.0.0.1:1"}]}'
fi
exec sleep 100
"""


def is_gone(pid):
    """Ended, whether or not somebody has asked how."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


class SimCheckTest(unittest.TestCase):
    def eventually(self, condition, what):
        until = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), until, what)
            time.sleep(0.02)

    def test_leaves_no_process_behind_when_it_is_killed(self):
        for how in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(how), tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                baton = folder / "baton"
                baton.write_text(FAKE_BATON)
                baton.chmod(baton.stat().st_mode | stat.S_IXUSR)
                check = subprocess.Popen([sys.executable, "-B", ROOT / "scripts/sim_check.py", "--bin", folder],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.addCleanup(check.kill)
                files = [folder / "serve.pid", folder / "bench.pid"]
                self.eventually(lambda: all(file.exists() for file in files), "both should have begun")
                pids = [int(file.read_text()) for file in files]
                check.send_signal(how)
                check.wait(30)
                self.eventually(lambda: all(map(is_gone, pids)), f"{pids} should be gone")


if __name__ == "__main__":
    unittest.main()
