"""Makes every golden file anew: tiny models, tokenizers and templates, EOS oracle.

Usage: make_golden.py [--root REPOSITORY]      (needs torch and transformers; README.md describes the files)
"""

import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--root", type=pathlib.Path, default=HERE.parent.parent)
    root = ap.parse_args().root
    out = root / "tests" / "golden"
    for script, options in (
        ("make_models.py", ["--out", out / "models"]),
        ("make_hidden.py", ["--models", out / "models"]),
        ("make_beams.py", ["--models", out / "models", "--out", out / "beams"]),
        ("make_text.py", ["--demo", root / "models" / "demo", "--out", out / "text"]),
        ("make_eos.py", ["--root", root, "--out", out / "eos"]),
    ):
        subprocess.run([sys.executable, HERE / script, *options], check=True)


if __name__ == "__main__":
    main()
