"""A worker asked for --device cuda on a machine without a GPU says so and ends.

Usage: refusal_test.py WORKER MODEL_DIR
"""

import subprocess
import sys


def main():
    worker, model = sys.argv[1:]
    result = subprocess.run([worker, model, "--device", "cuda", "--port", "0", "--admin-port", "0"],
                            capture_output=True, text=True, timeout=60, check=False)
    text = result.stdout + result.stderr
    assert result.returncode != 0, text
    assert "no NVIDIA driver" in text or "no NVIDIA GPU" in text, text
    assert "--device cpu" in text, text
    print(text.strip().splitlines()[-1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
