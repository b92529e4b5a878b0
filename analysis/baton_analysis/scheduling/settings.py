"""What is simulated: loads of a kind on a device, and the columns of policies and predictors."""

import dataclasses

from baton_analysis.scheduling import costs

LOADS = (0.70, 0.85, 0.95)  # of the capacity
RULE_LOAD = 0.85  # at which is tuned, and the default chosen
TEST_SEEDS = (1, 2, 3, 4, 5)
TRAINING_SEEDS = (6, 7)  # for what is tuned; no figure of theirs is told
FULL_KV = 0.90  # P95 of the use of a pool that is said to press


@dataclasses.dataclass(frozen=True)
class Setting:
    """Workers and the load that comes to them."""
    name: str
    title: str
    requests: int
    max_tokens: int  # limit that every request gives: as much as the longest answer has
    max_model_len: int
    max_num_seqs: int
    slo: str
    device: costs.Device | None = None  # None: the CPU, whose costs are given as a file
    trace: str = ""  # file of the Azure traces
    lengths: tuple[str, str] = ()  # of prompts and answers, drawn
    mixed: bool = False  # as workloads.write_mix says
    answers: bool = False  # recorded ones, with their signals
    pool_tokens: int = 0  # of a worker; 0: what the device has room for
    relaxed: bool = False  # takes that pool although it is never full
    cluster: tuple[str, ...] = ()  # flags; without them one worker prefills and decodes

    @property
    def full_pool(self) -> int:
        if self.device is None:
            return self.pool_tokens
        return self.pool_tokens or costs.pool_tokens(costs.LLAMA_8B, self.device)


SETTINGS = (
    Setting("conv-l4", "Azure conversations, 8B on an L4", 1000, 1000, 16384, 256,
            "ttft=5s,tpot=200ms", costs.L4, trace="conv.csv"),
    Setting("conv-relaxed", "Azure conversations, 8B on an H100 with all of its memory", 1000, 1000, 16384, 512,
            "ttft=1s,tpot=50ms", costs.H100, trace="conv.csv", relaxed=True),
    Setting("conv-split", "Azure conversations, 8B on H100s: 1 prefill, 2 decode workers", 1000, 1000, 16384, 512,
            "ttft=1s,tpot=50ms", costs.H100, trace="conv.csv", cluster=("--prefill", "1", "--decode", "2")),
    Setting("code-h100", "Azure code completion, 8B on an H100 with a part of its memory", 1000, 1900, 16384, 512,
            "ttft=1s,tpot=50ms", costs.H100, trace="code.csv"),
    Setting("reasoning-h100", "Reasoning lengths, 8B on an H100 with a part of its memory", 1500, 4096, 32768, 512,
            "ttft=2s,tpot=50ms", costs.H100, lengths=("reasoning", "reasoning")),
    Setting("mixed-h100", "Answers of two kinds, 8B on an H100 with a part of its memory", 1500, 4096, 8192, 512,
            "ttft=2s,tpot=50ms", costs.H100, mixed=True),
    Setting("mixed-classes", "The same answers, each kind of a class that the service is told", 1500, 4096, 8192, 512,
            "ttft=2s,tpot=50ms", costs.H100, mixed=True, cluster=("--class-boundary", "600")),
    Setting("recorded-cpu", "Recorded answers, the demo model on the CPU", 1500, 512, 2048, 64,
            "ttft=200ms,tpot=20ms", answers=True, pool_tokens=16384),
)  # yapf: disable


@dataclasses.dataclass(frozen=True)
class Column:
    """A policy with what foresees ends for it. Those that are `tuned` take the value, one of these, that did best on the
    training seeds."""
    policy: str
    predictor: str  # off, learnt, file (recorded answers only) or oracle
    served: bool
    flag: str = ""  # that the value belongs to; "": the name has it, as in ema:1.1
    tuned: tuple[float, ...] = ()

    more: tuple[str, ...] = ()  # other flags
    note: str = ""  # what these mean, for a person


_QUANTILES = {"flag": "--policy-quantile", "tuned": (0.5, 0.9)}
_GAMMAS = {"flag": "--policy-gamma", "tuned": (0.001, 0.01, 0.1)}
# Requests wait at the worker and not at the router, so that a policy has all of them to choose from.
_LONG_LINE = {**_GAMMAS, "more": ("--policy-line", "1024"), "note": "long line"}

COLUMNS = (
    Column("fcfs", "off", True),
    Column("past-future", "learnt", True, **_QUANTILES),
    Column("past-future", "file", True, **_QUANTILES),
    Column("past-future", "oracle", True, **_QUANTILES),
    Column("boost", "learnt", True, **_GAMMAS),
    Column("remaining", "learnt", True, **_GAMMAS),
    Column("remaining", "file", True, **_GAMMAS),
    Column("remaining", "oracle", True, **_GAMMAS),
    Column("boost", "learnt", True, **_LONG_LINE),
    Column("remaining", "learnt", True, **_LONG_LINE),
    Column("remaining", "oracle", True, **_LONG_LINE),
    Column("static-batch", "off", False),
    Column("reserve-max", "off", False),
    Column("static-reserve", "off", False, tuned=(64, 128, 256, 512)),
    Column("ema", "off", False, tuned=(0.5, 1.0, 1.5, 2.0)),
    Column("reserve-expected", "oracle", False),
)
