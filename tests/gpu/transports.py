"""Parts that run the three services on one device: tokens over every way of handing KV over, and kills.

The processes are those of tests/e2e: the shipped binaries on loopback, port 0, killed with their parent.
What each request should get comes from one unified worker on the same device, asked one at a time.
"""

import functools
import json
import os
import pathlib
import subprocess
import sys
import threading
import traceback

import machine
from plan import Failure, NotMeasured, Skip

WORDS = ("river", "mouse", "boat", "king", "garden", "lamp", "bird", "stone")
COUNT = 8
# A difference of log-probabilities below which bf16 may rank two tokens either way: products of another
# number of rows may be computed by another algorithm.
NEAR_TIE_NATS = 0.1
FLAGS = ("--no-enable-prefix-caching", "--max-num-batched-tokens", "32")  # several chunks a prompt
FAKE_NCCL = "libbaton_fake_nccl.so"
# NCCL refuses two ranks on one GPU of one host; with names of their own they are two hosts.
HOST_NAMES = {role: {"NCCL_HOSTID": f"baton-{role}", "NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo",
                     "NCCL_DEBUG": "WARN"} for role in ("prefill", "decode")}


def load_cluster(context):
    """tests/e2e/cluster.py over this build's binaries, whose libraries this process' children get."""
    os.environ.update(context.environment)
    os.environ.setdefault("BATON_PATIENCE_S", str(max(20, int(context.left() * 0.7))))
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
    import cluster  # pylint: disable=import-outside-toplevel
    return cluster


def share_patience(context, cluster, checks_left):
    """No wait of one of several checks takes the time of those behind it."""
    cluster.PATIENCE_S = max(10, context.left() * min(0.7, 1 / checks_left))
    cluster.GENERATE_PATIENCE_S = cluster.PATIENCE_S


def each(context, cluster, checks):
    """Does all checks, pairs of (name, function), whatever becomes of the others. Yields (name, what it
    returned) of those that go well, and then raises a Failure that tells of all that did not."""
    failures = []
    for at, (name, check) in enumerate(checks):
        share_patience(context, cluster, len(checks) - at)
        try:
            result = check()
        except (NotMeasured, Skip):
            raise
        except Exception as error:  # pylint: disable=broad-except
            traceback.print_exc()
            failures.append(f"{name}: {error}")
            continue
        yield name, result
    if failures:
        raise Failure(f"{len(failures)} of {len(checks)} failed; " + "\n".join(failures))


def requests(sampled, name="r", count=COUNT):
    made = []
    for i in range(count):
        text = (f"Tell me a long story about a {WORDS[i % len(WORDS)]} and {i + 2} friends who looked for a fox "
                "by the river and in the woods, and say what they found there in the evening.")
        made.append({"request_id": f"{name}{i}", "messages": [{"role": "user", "content": text}],
                     "max_tokens": 32, "eos": "mask", "seed": 7 + i,
                     "temperature": 0.8 if sampled else 0, "logprobs": 2})
    return made


@functools.lru_cache(maxsize=None)
def help_text(program, library_path):
    environment = {**os.environ, **({"LD_LIBRARY_PATH": library_path} if library_path else {})}
    result = subprocess.run([program, "--help", "all"], capture_output=True, text=True, timeout=60,
                            env=environment, check=False)
    if result.returncode != 0:
        raise Failure(f"{program} --help all ended with {result.returncode}: {result.stderr.strip()[-300:]}")
    return result.stdout


def knows(context, flag):
    return flag in help_text(str(context.build.bin / "baton-prefill"),
                             context.environment.get("LD_LIBRARY_PATH", ""))


def nccl_library(context):
    """The library that moves this device's memory, or why there is none."""
    if context.device == "cuda":
        if machine.NCCL not in context.libraries:
            raise NotMeasured(f"{machine.NCCL} was found neither in a toolkit nor in Python's packages")
        return str(context.libraries[machine.NCCL][0])
    fake = context.build.program(FAKE_NCCL)
    if fake is None:
        raise Skip(f"NCCL moves memory of GPUs; {FAKE_NCCL}, which stands in for it, is not in this build")
    return str(fake)


def way_flags(context, way):
    """Worker flags for a transport; Skip when the binaries do not know it."""
    if not knows(context, "--kv-transport"):
        if way == "grpc":
            return []
        raise Skip(f"baton-prefill of this build has no --kv-transport, so no {way}")
    flags = ["--kv-transport", way]
    return flags + ["--nccl-library", nccl_library(context)] if way == "nccl" else flags


def make_service(context, dtype, way=None, **options):
    """A Cluster of the demo model on the context's device."""
    cluster = load_cluster(context)

    class Service(cluster.Cluster):
        def spawn_worker(self, role, port=0, environment=None, extra=()):
            own = HOST_NAMES[role] if way == "nccl" else {}
            return super().spawn_worker(role, port, {**own, **(environment or {})}, extra)

    flags = ["--device", context.device, "--dtype", dtype, *FLAGS]
    return Service(flags=flags + (way_flags(context, way) if way else []), **options)


def reference(context, dtype, sampled):
    """Answers of one unified worker, one request at a time; made once a run."""
    path = context.work / f"reference-{dtype}-{'sampled' if sampled else 'greedy'}.json"
    if not path.exists():
        with make_service(context, dtype, prefill=0) as service:
            for kind in (False, True):
                answers = service.generate(requests(kind), "--chat")
                name = f"reference-{dtype}-{'sampled' if kind else 'greedy'}.json"
                (context.work / name).write_text(json.dumps(answers))
    return json.loads(path.read_text())


def compare(answers, expected, allow_ties):
    """(wrong answers as text, near-ties) of answers to the same requests in the same order."""
    wrong, ties = [], 0
    for number, (answer, right) in enumerate(zip(answers, expected, strict=True)):
        have, want = answer.get("token_ids"), right["token_ids"]
        if have == want:
            continue
        if have is None or len(have) != len(want):
            wrong.append(f"request {number}: {answer.get('error', answer)}")
            continue
        at = next(i for i, (a, b) in enumerate(zip(have, want)) if a != b)
        first, second = right["logprobs"][at]["top"][:2]
        gap = first["logprob"] - second["logprob"]
        if allow_ties and have[at] == second["token_id"] and gap <= NEAR_TIE_NATS:
            ties += 1
        else:
            wrong.append(f"request {number}: token {at} is {have[at]}, expected {want[at]} ({gap:.3f} nats "
                         f"before {second['token_id']})")
    return wrong, ties


def warm(service, way):
    warm_with(service, way, requests(False, "warm", 1), "--chat")


def warm_with(service, way, asked, *options):
    """The first handoff goes by gRPC and has the router ask for a pair of devices."""
    cluster = sys.modules["cluster"]
    # Until the router knows a prefill worker, the decode worker would compute the prompt itself.
    cluster.wait_until(lambda: service.router.metrics().sum(
        "baton_router_worker_up", worker_role="prefill") >= len(service.prefill), "the router to know the workers")
    service.generate(asked, *options)
    if way in ("nccl", "cuda_ipc"):
        prefill = service.prefill[0]
        cluster.wait_until(lambda: prefill.metrics().sum("baton_kv_pairs") >= 1,
                           lambda: f"a pair of devices over {way}:\n{prefill.tail(10)}")


def pushes(service, way):
    """Handoffs from device to device so far; None for gRPC, which is what is left."""
    if way == "grpc":
        return None
    try:
        return service.prefill[0].metrics().sum("baton_kv_pushes_total", transport=way)
    except AssertionError:  # binaries without such counters
        return None


def handed_over(service):
    return service.decode[0].metrics().sum("baton_prompt_tokens_by_source_total", source="external_kv_transfer")


def check_way(context, way, dtype, sampled_too):
    """Asks one service each request alone, then all side by side; returns what was counted."""
    allow_ties = context.device == "cuda" and dtype == "bfloat16"
    kinds = [(False, reference(context, dtype, False))]
    if sampled_too:
        kinds.append((True, reference(context, dtype, True)))
    wrong, ties, asked = [], 0, 0
    with make_service(context, dtype, way) as service:
        warm(service, way)
        before = pushes(service, way)
        for sampled, expected in kinds:
            for concurrency in (1, COUNT):
                answers = service.generate(requests(sampled, f"{'s' if sampled else 'g'}{concurrency}-"),
                                           "--chat", concurrency=concurrency)
                found, near = compare(answers, expected, allow_ties)
                wrong += found
                ties += near
                asked += len(answers)
        tokens, after = handed_over(service), pushes(service, way)
        service.assert_nothing_held()
    if wrong:
        raise Failure(f"{len(wrong)} of {asked} answers over {way} in {dtype} differ from a unified worker's: "
                      + "; ".join(wrong[:2]))
    if tokens <= 0:
        raise Failure(f"no prompt token came by a handoff over {way}: baton_prompt_tokens_by_source_total is 0")
    if after is not None and after - before < asked:
        raise Failure(f"{after - before:.0f} of {asked} handoffs went over {way}; expected all of them")
    return {"answers": asked, "near_ties": ties, "prompt_tokens_handed_over": tokens,
            "handoffs_over_the_way": None if after is None else after - before}


def check_service(way, context, recorder):
    """The three services, KV handed over by `way`: the tokens of a unified worker on the same device."""
    way_flags(context, way)  # before anything is started
    cluster = load_cluster(context)
    # In fp32 rounding decides nothing, so there every token must be equal, drawn ones too.
    checks = [(dtype, functools.partial(check_way, context, way, dtype, sampled_too))
              for dtype, sampled_too in (("float32", True), ("bfloat16", context.device == "cpu"))]
    lines, tokens = [], 0
    for dtype, found in each(context, cluster, checks):
        recorder.detail(dtype, found)
        lines.append(f"{dtype}: {found['answers']} answers equal" + (
            f", {found['near_ties']} of them up to a near-tie" if found["near_ties"] else ""))
        tokens = found["prompt_tokens_handed_over"]
        recorder.why("; ".join(lines))
    recorder.why("; ".join(lines) + f"; {tokens:.0f} prompt tokens by handoff")


# --- kill -9 ---

# By role: a failpoint within a transfer, some requests after the pair is warm.
KILL_POINTS = {"prefill": "pushing@6", "decode": "receiving@14"}


def kill_during_transfer(context, way, role):
    """Kills the worker of `role` within a handoff, and lets another take its place; returns how many attempts
    were replayed."""
    cluster = load_cluster(context)
    expected = reference(context, "float32", True)
    environment = {"BATON_FAILPOINT": f"{KILL_POINTS[role]}:stop"}
    flags = {f"{role}_flags": ["--enable-failpoints"]}
    answers = []
    with make_service(context, "float32", way, worker_environment=environment, **flags) as service:
        warm(service, way)
        thread = threading.Thread(target=lambda: answers.extend(
            service.generate(requests(True, "k"), "--chat", concurrency=COUNT, check=False)), daemon=True)
        thread.start()
        victims = service.prefill if role == "prefill" else service.decode
        victim = victims[0]
        cluster.wait_until(victim.stopped, f"the failpoint {KILL_POINTS[role]} in {role}")
        port = victim.grpc.rsplit(":", 1)[1]
        victim.kill()
        victims.remove(victim)
        service.worker_environment = {}
        service.spawn_worker(role, port=port).wait_ready()
        thread.join(min(context.left(), cluster.GENERATE_PATIENCE_S))
        if thread.is_alive():
            raise Failure(f"requests did not end after kill -9 of {role} during a transfer over {way}")
        wrong, _ = compare(answers, expected, allow_ties=False) if len(answers) == COUNT else (
            [f"{len(answers)} of {COUNT} answers"], 0)
        if wrong:
            raise Failure(f"after kill -9 of {role} during a transfer over {way}: {'; '.join(wrong[:2])}")
        service.assert_nothing_held()
    replayed = sum(answer["attempts"] - 1 for answer in answers)
    if replayed == 0:
        raise Failure(f"kill -9 of {role} over {way} met no request: none was replayed")
    return replayed


def kills(context, recorder):
    """kill -9 of a prefill and of a decode worker during a transfer: nothing lost, tokens identical."""
    ways, left_out = [], []
    for way in context.sizes.kill_ways:
        try:
            way_flags(context, way)
            ways.append(way)
        except (Skip, NotMeasured) as error:
            left_out.append(str(error))
    ways = ways or ["grpc"]  # which every build has
    recorder.detail("left_out", left_out)
    checks = [(f"{role} over {way}", functools.partial(kill_during_transfer, context, way, role))
              for way in ways for role in ("prefill", "decode")]
    done = []
    for name, replayed in each(context, load_cluster(context), checks):
        done.append({"killed": name, "replayed": replayed, "answers": COUNT})
        recorder.detail("kills", done)
        recorder.why(f"{len(done)} kills, no request lost, tokens identical, blocks free "
                     f"({', '.join(ways)})")
