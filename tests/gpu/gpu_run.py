"""The command behind tests/gpu/run: its options, its parts in order, and where results go."""

import argparse
import dataclasses
import datetime
import functools
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

import build
import fp8
import gtests
import machine
import plan
import quickstart
import report
import sizes
import small_weights
import steps
import throughput
import transports

BUDGET_S = 525  # under nine minutes, with what stands around the parts
# A dry run is done beside other work, and proves nothing by being quick.
CPU_PATIENCE = 4


@dataclasses.dataclass
class Context:
    """What every part is given."""

    device: str
    build: build.Build
    libraries: dict  # name -> (path, origin)
    gpu: dict
    python: str      # with torch, if any has it
    work: pathlib.Path
    model: pathlib.Path  # the folder for it; not made yet
    sizes: sizes.Sizes
    environment: dict = dataclasses.field(default_factory=dict)  # of our binaries
    own_library_path: str = ""                                   # of all others
    deadline: float = 0.0

    def begin(self, limit_s):
        self.deadline = time.monotonic() + limit_s

    def left(self):
        """Seconds that what is started now may take, so that there is time to say what came of it."""
        return max(1.0, self.deadline - time.monotonic() - 2)


def facts(context, recorder):
    """What this machine is, the libraries that were found, and their versions."""
    for name, value in machine_facts(context).items():
        recorder.detail(name, value)
    lines = [f"built from {context.build.info.get('commit') or 'an unknown commit'}"]
    if context.device == "cuda":
        lines.append(start_cuda(context, recorder))
        recorder.why("; ".join(lines))
    versions = {}
    for name, (path, origin) in context.libraries.items():
        versions[name] = {"version": machine.version_of(name, path), "path": str(path), "from": origin}
        lines.append(f"{name} {versions[name]['version']} from {origin}")
    packages = {name: machine.package_version(name) for name in
                ("torch", "transformers", "nvidia-cublas", "nvidia-nccl-cu13")}
    recorder.detail("libraries", versions)
    recorder.detail("packages", packages)
    recorder.detail("build", context.build.info)
    lines += [f"{name} {version}" for name, version in packages.items() if version]
    recorder.why("; ".join(lines))
    if context.device != "cuda":
        return
    broken = [f"{name} {found['version']}" for name, found in versions.items() if "load" in found["version"]]
    if machine.CUBLASLT not in versions:
        broken.append(f"{machine.CUBLASLT} was found neither in a toolkit (CUDA_HOME, /usr/local/cuda) nor in the "
                      "packages of this Python (nvidia-cublas)")
    if broken:
        raise plan.Failure("; ".join(broken))


def start_cuda(context, recorder):
    """Makes the first context of the run, and has what every start reads in memory; a line on both."""
    recorder.blocks("CUDA did not start in its time")
    try:
        init_s, context_s = machine.make_context(machine.driver())
    except machine.CudaError as error:
        recorder.blocks(f"CUDA does not start: {error}")
        raise plan.Failure(f"CUDA does not start: {error}") from error
    recorder.blocks("")
    recorder.detail("cuda_start_s", {"init": round(init_s, 2), "context": round(context_s, 2)})
    size, read_s = machine.read_through([path for path, _ in context.libraries.values()])
    recorder.detail("libraries_read", {"bytes": size, "seconds": round(read_s, 2)})
    modes = ", ".join(f"{name.replace('_', ' ')} {context.gpu.get(name, 'unknown')}"
                      for name in ("persistence_mode", "compute_mode"))
    return (f"CUDA initialised in {init_s:.1f} s, context in {context_s:.1f} s; {modes}; libraries of "
            f"{size / 2**20:.0f} MiB read in {read_s:.1f} s")


def machine_facts(context):
    return {"gpu": context.gpu, "processor": machine.processor(), "cores": os.cpu_count(),
            "memory_gib": round(machine.memory_gib(), 1)}


PARTS = (
    plan.Part("facts", "the machine, its libraries and their versions", facts, 60, 5),
    plan.Part("kernels", "every kernel against its reference", gtests.kernels, 120, 20),
    plan.Part("golden", "golden models of transformers", gtests.golden, 90, 15),
    plan.Part("steps", "ceilings, decode, prefill, products, attention; torch in turns", steps.steps, 150, 90,
              steps.rows),
    plan.Part("weights", "steps and products by weights of 4 and 8 bits", small_weights.measure, 60, 20,
              small_weights.rows),
    plan.Part("grpc", "the three services, KV by gRPC: tokens of unified mode",
              functools.partial(transports.check_service, "grpc"), 60, 20),
    plan.Part("cuda_ipc", "the three services, KV from process to process on one GPU",
              functools.partial(transports.check_service, "cuda_ipc"), 60, 20),
    plan.Part("nccl", "the three services, KV by NCCL between two processes (correctness only)",
              functools.partial(transports.check_service, "nccl"), 70, 20),
    plan.Part("serve", "`baton serve` with no size given: two workers on one device", quickstart.check, 60, 15),
    plan.Part("kills", "kill -9 of prefill and of decode during a transfer", transports.kills, 90, 25),
    plan.Part("model", "random weights of the measured shape", throughput.make_model, 60, 15),
    plan.Part("handoff", "handoff of a long prompt: rate, and what hides behind compute", throughput.handoff, 90, 30,
              throughput.handoff_rows, after=("model",)),
    plan.Part("serving", "a load on one worker; transformers' continuous batching in turns", throughput.serving, 130,
              30, throughput.load_rows, after=("model",)),
    # Behind what every GPU has a use for.
    plan.Part("fp8", "checkpoints of FP8; steps and products by it (compute capability 9.x)",
              fp8.measure, 90, 30, fp8.rows),
    # Last: it takes what time there is.
    plan.Part("sanitizers", "compute-sanitizer on the kernel tests", gtests.sanitizers, 120, 20),
)


def parse(arguments, description):
    parts = "\n".join(f"  {part.name:11} {part.what}; at most {part.limit_s:.0f} s" for part in PARTS)
    parser = argparse.ArgumentParser(prog="tests/gpu/run", description=f"{description}\nparts, in order:\n{parts}",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--out", metavar="DIR", default=str(build.ROOT / "build/gpu-run"), help="of the results [build/gpu-run]")
    add("--only", metavar="PART,..", default="", help="these parts alone, with what they need [all]")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a dry run [cuda]")
    add("--build", metavar="PATH", help="a build tree or a pack [build/gpu-pack.tar.xz, else build/cuda; build/cpu]")
    add("--python", default=sys.executable, help="one that has torch and transformers [this one]")
    add("--work", metavar="DIR", help="where the pack is unpacked and the model made [a temporary folder]")
    add("--budget", type=float, metavar="S",
        help=f"seconds for all parts [{BUDGET_S}; {CPU_PATIENCE} times that, as each part's limit, on a cpu]")
    options = parser.parse_args(arguments)
    patience = 1 if options.device == "cuda" else CPU_PATIENCE
    if options.budget is None:
        options.budget = patience * BUDGET_S
    if options.budget <= 0:
        parser.error(f"--budget: expected more than 0, found {options.budget:g}")
    if shutil.which(options.python) is None:
        parser.error(f"--python: {options.python} is not there")
    if options.work is not None and not pathlib.Path(options.work).is_dir():
        parser.error(f"--work: {options.work} is no folder")
    try:
        options.parts = [dataclasses.replace(part, limit_s=patience * part.limit_s)
                         for part in plan.chosen(PARTS, options.only)]
    except ValueError as error:
        parser.error(str(error))
    return options


def make_context(options, work, model):
    gpu, libraries = {}, {}
    if options.device == "cuda":
        gpu = machine.find_gpu()
        libraries = machine.find_libraries()
        gpu["device_files_held"] = len(machine.hold_devices())
        if gpu["count"] > 1:  # one GPU, and the same one for everybody
            os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    built = build.find_build(options.device, options.build, work / "build")
    context = Context(options.device, built, libraries, gpu, options.python, work, model,
                      sizes.of(options.device))
    context.environment = built.environment([path for path, _ in libraries.values()])
    context.own_library_path = os.environ.get("LD_LIBRARY_PATH", "")
    return context


def head_lines(context, date):
    gpu = context.gpu
    lines = [f"tests/gpu/run --device {context.device}, {date}, commit "
             f"{context.build.info.get('commit') or 'unknown'}, binaries of {context.build.origin}"]
    if gpu:
        lines.append(f"{gpu['name']}, {gpu['memory.total']} MiB, compute capability {gpu['compute_cap']}, driver "
                     f"{gpu['driver_version']}")
    else:
        lines.append("Dry run on the CPU backend: no figure below says anything about a GPU.")
    lines.append(f"{machine.processor()}, {os.cpu_count()} cores, {machine.memory_gib():.0f} GiB")
    return lines


def write_results(out, context, results, date, seconds):
    text = report.text(head_lines(context, date), results)
    facts_ = {"date": date, "device": context.device, **machine_facts(context), "build": context.build.info,
              "libraries": {name: str(path) for name, (path, _) in context.libraries.items()}}
    for name, content in (("result.json", report.document(facts_, results, seconds)), ("result.md", text)):
        fresh = out / f".{name}.new"
        fresh.write_text(content, encoding="utf-8")
        fresh.replace(out / name)
    return text


def model_root(options):
    """Where the model goes: into memory, if that holds it and leaves room."""
    shared = pathlib.Path("/dev/shm")
    need = 3 * throughput.model_bytes(sizes.of(options.device).shape)
    if options.work is None and os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > need:
        return str(shared)
    return options.work


def run(options, work, model):
    begin = time.monotonic()
    # What a part that was ended left behind goes with the folder.
    os.environ["TMPDIR"] = tempfile.tempdir = str(work)
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    context = make_context(options, work, model)
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    log = out / "log.txt"
    log.write_text("")

    def on_result(results):
        last = results[-1]
        print(f"[{time.monotonic() - begin:5.0f} s] {last.name}: {last.status}; {last.why}", file=sys.stderr,
              flush=True)
        # On disk after every part: whoever ends this command still has those.
        on_result.text = write_results(out, context, results, date, time.monotonic() - begin)

    results = plan.run_all(options.parts, context, work, log, options.budget - (time.monotonic() - begin), on_result)
    print(on_result.text)
    print(f"{out}/result.json, result.md, log.txt; {time.monotonic() - begin:.0f} s", file=sys.stderr)
    return report.exit_code(results)


def main(arguments, description):
    options = parse(arguments, description)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with tempfile.TemporaryDirectory(prefix="baton-gpu-", dir=options.work) as work, \
                tempfile.TemporaryDirectory(prefix="baton-gpu-", dir=model_root(options)) as model:
            return run(options, pathlib.Path(work), pathlib.Path(model) / "model")
    except (machine.NoGpu, build.BuildError) as error:
        print(f"tests/gpu/run: {error}", file=sys.stderr)
        return 2
