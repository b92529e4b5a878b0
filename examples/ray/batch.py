"""Answers one file of requests on all machines of a Ray cluster, with Ray Data.

    python3 batch.py IN.jsonl OUT.jsonl --model /models/llama --workers 4
    python3 batch.py IN.jsonl OUT.jsonl --model /models/llama --gpus 1 --serve-flag=--dtype=bfloat16
    python3 batch.py IN.jsonl OUT.jsonl --server http://router:8000

The lines are those of OpenAI's batch format, in and out. Ray Data cuts the input into batches and gives each to
an actor, which has it answered by `baton batch`: by a `baton serve` of the actor's own, or by a service that is
there. Every machine needs the programs of Baton in its PATH, and the model in the same folder.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import ray

LINES_FAILED = 1  # the exit code of a batch whose lines are all done, some with an error


class Answers:
    """Has batches of lines answered. One of them fills a machine."""

    def __init__(self, baton, model, server, serve_flags=()):
        self._baton = baton
        self._service = None
        self._server = server
        if model:
            # The service ends with the actor, however that ends.
            self._service = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", baton, "serve", model, "--port", "0", "--admin-port", "0",
                 "--http-port", "0", "--eos-log", "off", "--log-level", "warn", *serve_flags],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
            ready = self._service.stdout.readline()
            if not ready:
                raise RuntimeError(f"baton serve {model} ended with exit code {self._service.wait()}")
            self._server = json.loads(ready)["http"]

    def __call__(self, batch):
        with tempfile.TemporaryDirectory(prefix="baton-ray-") as name:
            lines, answers = pathlib.Path(name, "in.jsonl"), pathlib.Path(name, "out.jsonl")
            lines.write_text("".join(line + "\n" for line in batch["text"]), encoding="utf-8")
            done = subprocess.run([self._baton, "batch", lines, answers, "--server", self._server],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            # A text may have what Python, too, counts as an end of a line.
            found = answers.read_text(encoding="utf-8").split("\n")[:-1] if answers.exists() else []
            wanted = sum(1 for line in batch["text"] if line.strip())
            # An error of a line is its answer. Anything else raises, which ends the job.
            if done.returncode not in (0, LINES_FAILED) or len(found) != wanted:
                raise RuntimeError(f"baton batch ended with exit code {done.returncode}: {done.stderr}")
            return {"text": found}


def options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("input", help="requests, one on each line")
    parser.add_argument("output", help="answers; written anew")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--model", help="model directory, for which each actor starts workers")
    way.add_argument("--server", help="address of a service that is there")
    parser.add_argument("--workers", type=int, default=1, help="actors; as many as machines [%(default)s]")
    parser.add_argument("--cpus", type=float, default=1, help="CPUs that Ray counts for an actor [%(default)s]")
    parser.add_argument("--gpus", type=float, default=0, help="GPUs that an actor gets and computes on [%(default)s]")
    parser.add_argument("--serve-flag", action="append", default=[], metavar="FLAG",
                        help="for the `baton serve` of each actor, as --serve-flag=--threads=4; may be repeated")
    parser.add_argument("--batch", type=int, default=1000, help="lines of a batch [%(default)s]")
    parser.add_argument("--baton", default="baton", help="the program [%(default)s]")
    given = parser.parse_args()
    if not given.model and (given.gpus or given.serve_flag):
        parser.error("--gpus and --serve-flag are for the workers of actors: expected --model, found --server")
    return given


def serve_flags(given):
    # Ray shows an actor the GPUs that are its own; the workers still have to be told to use them.
    return [*(["--device", "cuda"] if given.gpus else []), *given.serve_flag]


def main():
    given = options()
    ray.init(log_to_driver=True)
    lines = ray.data.read_text(given.input)
    for_actors = (given.baton, given.model, given.server, serve_flags(given))
    answers = lines.map_batches(
        Answers, fn_constructor_args=for_actors, batch_size=given.batch,
        concurrency=given.workers, num_cpus=given.cpus, num_gpus=given.gpus, batch_format="numpy")
    count = failed = 0
    with open(given.output, "w", encoding="utf-8") as out:
        for row in answers.iter_rows():
            out.write(row["text"] + "\n")
            answer = json.loads(row["text"])
            count += 1
            failed += not answer["response"] or answer["response"]["status_code"] != 200
    print(f"{given.output}: {count} answers, {failed} of them errors")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
