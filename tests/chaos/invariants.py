"""What holds when all is healed and nobody asks: nothing held, nothing waiting, memory flat."""

import os
import pathlib
import re
import threading

import grpc

import client
from cluster import ROOT, Failure
from slots import PLACES

WARM_ROUNDS = 2
GROWTH_MIB, GROWTH_MIB_A_ROUND = 4, 0.25
MORE_FILES = 16
_VERSION = (ROOT / "common/rpc/protocol_version.h").read_text()
PROTOCOL_MAJOR = int(re.search(r"kProtocolMajor = (\d+)", _VERSION).group(1))


def held(slot):
    """What a process that nobody asks anything still has, in words; "" if nothing."""
    try:
        metrics = slot.process.metrics()
    except (OSError, Failure) as error:
        return f"{slot.process.name}: no metrics: {error}"
    zero = ["baton_num_requests_in_stage", "baton_num_requests_waiting"]
    if slot.role == "router":
        zero += ["baton_requests_inflight", "baton_request_bytes_inflight"]
    else:
        zero += ["baton_num_requests_running"]
    found = {name: metrics.sum(name) for name in zero}
    if slot.role == "router":
        found["requests received and not finished"] = metrics.sum(
            "baton_requests_received_total") - metrics.sum("baton_request_success_total") - metrics.sum(
                "baton_request_failure_total")
    else:
        for state in ("used", "quarantined"):
            found[f"{state} blocks"] = metrics.sum("baton_kv_blocks", state=state)
        # Workers without swap space have no such series.
        found["swap space in use"] = sum(
            value for name, _, value in metrics.series if name == "baton_swap_space_usage_perc")
    left = {name: value for name, value in found.items() if value}
    return f"{slot.process.name}: {left}" if left else ""


def unseen(router, workers):
    """Workers that a router does not see up, in words."""
    try:
        metrics = router.process.metrics()
        up = metrics.sum("baton_router_worker_up")
    except (OSError, Failure) as error:
        return f"{router.process.name}: no metrics: {error}"
    return "" if up == workers else f"{router.process.name} sees {up:.0f} of {workers} workers"


def places_missing(slot):
    """Whether the worker lends all its places to a router that wants them, in words if not.

    A place that is lent to a request that is over would be lacking.
    """
    wire = client.Client(slot.address)
    demand = {"placesWanted": 1000, "promptTokensWanted": "1000000"}
    try:
        call = wire.converse("baton.worker.v1.StatusService/Watch", _until_cancelled(
            {"protocol": {"major": PROTOCOL_MAJOR}, "demand": demand}), timeout_s=10)
        seen = -1
        for _, response in zip(range(8), call):
            seen = response.share.places
            if seen == PLACES[slot.role]:
                return ""
        return f"{slot.process.name} lends {seen} of {PLACES[slot.role]} places"
    except grpc.RpcError as error:
        return f"{slot.process.name}: {error.code().name}: {error.details()}"
    finally:
        wire.close()


def _until_cancelled(request):
    """The request, and then a stream that stays open for as long as its channel does."""
    yield request
    threading.Event().wait(10)


def resident_mib(process):
    pages = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def open_files(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def shows_nothing(struck, missed, answers):
    """Why a run in which nothing failed says nothing of the service."""
    if not struck:
        yield f"no blow was struck, and {missed} missed their target: give it more --seconds"
    if not answers:
        yield "no client had an answer: give it more --seconds"


class Memory:
    """Resident memory of each process at the quiet points of its life."""

    def __init__(self):
        self.by_life = {}  # (slot, number): [MiB at each quiet point]
        self.files = {}

    def look(self, slots):
        for slot in slots:
            key = (slot.name, slot.lives)
            self.by_life.setdefault(key, []).append(resident_mib(slot.process))
            self.files.setdefault(key, []).append(open_files(slot.process))

    def growth(self):
        """What grew more than it may, in words.

        Arenas of the allocator, thread stacks and caches fill up during the first rounds, and a
        few files more or less are connections of the moment. What leaks with each blow or request
        passes these bounds in a run of some minutes.
        """
        found = []
        for (slot, number), sizes in self.by_life.items():
            warm, last = sizes[:WARM_ROUNDS], sizes[WARM_ROUNDS:]
            name = f"{slot}.{number}"
            if last and last[-1] > max(warm) + GROWTH_MIB + GROWTH_MIB_A_ROUND * len(last):
                found.append(f"{name} grew from {max(warm):.1f} to {last[-1]:.1f} MiB in "
                             f"{len(last)} rounds")
            files = self.files[slot, number]
            before = max(files[:WARM_ROUNDS])
            if len(files) > WARM_ROUNDS and files[-1] > before + MORE_FILES:
                found.append(f"{name} has {files[-1]} open files, at first at most {before}")
        return found
