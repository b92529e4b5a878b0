"""Networks: what a row of features says (M4, P0, H), with what was before it (M5 and others).

All are trained on the hazards of bins; the epoch that is best on the validation split is kept.
"""

import copy

import numpy as np
import torch
from torch import nn

from baton_analysis.predict import bins, file, survival
from baton_analysis.predict.features import NAMES
from baton_analysis.predict.fitted import Fitted, moments, servable, targets
from baton_analysis.predict.frame import Frame

# What a recurrent network sees of a row; it keeps the past by itself.
ROW = ("log_step", "log_prompt", "temperature", "top_p", "lo", "so", "entropy", "top1", "log_rank",
       "boundary", "line", "since_boundary", "boundaries", "after_lo", "after_so", "repeat4")
PRIOR = ("log_step", "step", "log_prompt", "temperature", "top_p")
HIDDEN, STATE = 48, 32
UPDATES = 60  # per epoch, of sequences; batches are made as large as that
BATCH_ROWS_MIN, BATCH_ROWS_MAX = 2048, 16384
MLP_BATCH_ROWS = 2048
PATIENCE = 5
RATE, SEQUENCE_RATE = 3e-3, 1e-2


def probe_names(frame: Frame, kind: str) -> tuple[str, ...]:
    return tuple(name for name in frame.names if name.startswith(f"{kind}["))


def fit_mlp(train: Frame, valid: Frame, seed: int, options) -> Fitted:
    return _fit_mlp(NAMES, train, valid, seed, options)


def fit_first_probe(train: Frame, valid: Frame, seed: int, options) -> Fitted:
    names = (*PRIOR, *probe_names(train, "first_probe"))
    return _fit_mlp(names, train, valid, seed, options)


def fit_probe(train: Frame, valid: Frame, seed: int, options) -> Fitted:
    return _fit_mlp((*PRIOR, *probe_names(train, "probe")), train, valid, seed, options)


def fit_gru(train: Frame, valid: Frame, seed: int, options) -> Fitted:
    return _fit_gru(ROW, (), train, valid, seed, options, prior=False)


def fit_combination(train: Frame, valid: Frame, seed: int, options) -> Fitted:
    """A prior hazard by length, and what rows and the probe say beyond it."""
    names = (*NAMES, *probe_names(train, "probe"), *probe_names(train, "first_probe"))
    return _fit_gru(ROW, names, train, valid, seed, options, prior=True)


def fit_lstm(train: Frame, valid: Frame, seed: int, options) -> Fitted:
    make = lambda width: _Recurrent(nn.LSTM(width, STATE, batch_first=True), STATE)
    return _fit_compared(make, SEQUENCE_RATE, train, valid, seed, options)


def fit_transformer(train: Frame, valid: Frame, seed: int, options) -> Fitted:
    return _fit_compared(_Transformer, RATE, train, valid, seed, options)


class _Recurrent(nn.Module):

    def __init__(self, cell: nn.Module, state: int, extra: int = 0):
        super().__init__()
        self.cell = cell
        self.head = nn.Sequential(nn.Linear(state + extra, HIDDEN), nn.ReLU(),
                                  nn.Linear(HIDDEN, bins.COUNT))

    def forward(self, x, extra):
        state, _ = self.cell(x)
        return self.head(torch.cat((state, extra), dim=-1))


class _Transformer(nn.Module):
    """Two layers over the rows so far; log_step, among the inputs, says where a row stands."""

    def __init__(self, width: int):
        super().__init__()
        self.embed = nn.Linear(width, STATE)
        layer = nn.TransformerEncoderLayer(STATE, 4, 2 * STATE, 0.0, batch_first=True,
                                           norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(STATE, bins.COUNT)

    def forward(self, x, extra):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.head(self.layers(self.embed(x), mask=mask, is_causal=True))


def _fit_mlp(names, train, valid, seed, options) -> Fitted:
    _begin(seed, options.threads)
    table = train.select(names)
    mean, scale = moments(table)
    network = nn.Sequential(nn.Linear(len(names), HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN),
                            nn.ReLU(), nn.Linear(HIDDEN, bins.COUNT))
    rng = np.random.default_rng(seed)
    given = [(_tensor((frame.select(names) - mean) / scale), *_outcomes(frame))
             for frame in (train, valid)]

    def batches(which, shuffled):
        x, outcomes, known = given[which]
        order = rng.permutation(len(x)) if shuffled else np.arange(len(x))
        for rows in np.array_split(order, max(1, len(x) // MLP_BATCH_ROWS)):
            yield network(x[rows]), outcomes[rows], known[rows]

    _train(network, batches, RATE, options.epochs)
    return servable({"kind": "mlp", "layers": _layers(network)}, names, mean, scale)


def _fit_gru(row_names, names, train, valid, seed, options, prior) -> Fitted:
    _begin(seed, 1)  # steps are small: threads would mostly wait for each other
    network = _Recurrent(nn.GRU(len(row_names), STATE, batch_first=True), STATE, len(names))
    row_mean, row_scale = moments(train.select(row_names))
    mean, scale = moments(train.select(names)) if names else ((), ())
    base = None
    if prior:
        lengths = np.array([answer.length for answer in train.answers])
        natural = np.array([answer.natural for answer in train.answers])
        base = survival.fit(lengths, natural, [])
    parts = [
        _Answers(frame, (frame.select(row_names) - row_mean) / row_scale,
                 (frame.select(names) - mean) / scale if names else None, base)
        for frame in (train, valid)
    ]
    _train(network, _sequence_batches(network, parts, seed), SEQUENCE_RATE, options.epochs)
    cell = {
        name: file.encoded(value.detach().numpy(), "<f4")
        for name, value in network.cell.named_parameters()
    }
    model = {
        "kind": "gru", "hidden": STATE, "input": list(row_names), "mean": row_mean.tolist(),
        "scale": row_scale.tolist(), "w_ih": cell["weight_ih_l0"], "w_hh": cell["weight_hh_l0"],
        "b_ih": cell["bias_ih_l0"], "b_hh": cell["bias_hh_l0"],
        "head": {"layers": _layers(network.head)}
    }  # yapf: disable
    if prior:
        model = {"kind": "sum", "parts": [base, model]}
    return servable(model, names, mean, scale)


def _fit_compared(make, rate, train, valid, seed, options) -> Fitted:
    _begin(seed, 1)
    network = make(len(ROW))
    mean, scale = moments(train.select(ROW))
    answers = lambda frame: _Answers(frame, (frame.select(ROW) - mean) / scale, None, None)
    parts = [answers(train), answers(valid)]
    _train(network, _sequence_batches(network, parts, seed), rate, options.epochs)

    def logits(frame: Frame) -> np.ndarray:
        given = answers(frame)
        found = np.empty((frame.rows, bins.COUNT))
        with torch.no_grad():
            for group in given.groups(np.arange(given.count)):
                batch = given.batch(group)
                out = network(batch.x, batch.extra).double().numpy()
                for place, answer in enumerate(batch.answers):
                    start, end = frame.starts[answer], frame.starts[answer + 1]
                    found[start:end] = out[place, :end - start]
        return found

    return Fitted(None, logits)


class _Batch:

    def __init__(self, answers, x, extra, base, outcomes, known):
        self.answers, self.x, self.extra, self.base = answers, x, extra, base
        self.outcomes, self.known = outcomes, known


class _Answers:
    """Answers of a frame, padded to batches of answers of about the same length."""

    def __init__(self, frame: Frame, x, extra, base):
        self._starts = frame.starts
        self._x = _tensor(x)
        self._extra = torch.zeros((frame.rows, 0)) if extra is None else _tensor(extra)
        self._outcomes, self._known = _outcomes(frame)
        self._base = None
        if base is not None:
            self._base = _tensor(
                survival.class_logits(base["classes"][base["default"]], frame.steps))
        self.count = len(frame.answers)
        self._batch_rows = int(np.clip(frame.rows / UPDATES, BATCH_ROWS_MIN, BATCH_ROWS_MAX))

    def groups(self, answers: np.ndarray):
        """Lists of answers of about the same length, the longest last."""
        lengths = np.diff(self._starts)
        group = []
        for answer in answers[np.argsort(lengths[answers], kind="stable")].tolist():
            if group and (len(group) + 1) * lengths[answer] > self._batch_rows:
                yield group
                group = []
            group.append(answer)
        if group:
            yield group

    def batch(self, group) -> _Batch:
        longest = self._starts[group[-1] + 1] - self._starts[group[-1]]
        rows = np.zeros((len(group), longest), dtype=np.int64)
        there = torch.zeros((len(group), longest, 1))
        for place, answer in enumerate(group):
            start, end = self._starts[answer], self._starts[answer + 1]
            rows[place, :end - start] = np.arange(start, end)
            there[place, :end - start] = 1
        rows = torch.from_numpy(rows)
        base = None if self._base is None else self._base[rows]
        return _Batch(group, self._x[rows], self._extra[rows], base, self._outcomes[rows],
                      self._known[rows] * there)


def _sequence_batches(network, parts, seed):
    rng = np.random.default_rng(seed)

    def batches(which, shuffled):
        given = parts[which]
        order = np.arange(given.count)
        # Each epoch groups other answers of like length.
        groups = list(given.groups(rng.permutation(order) if shuffled else order))
        for number in rng.permutation(len(groups)) if shuffled else range(len(groups)):
            batch = given.batch(groups[number])
            out = network(batch.x, batch.extra)
            yield out if batch.base is None else out + batch.base, batch.outcomes, batch.known

    return batches


def _train(network, batches, rate: float, epochs: int):
    """`batches(which, shuffled)` gives (logits, outcomes, known) of split 0 (training) or 1."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=1e-4)
    best, kept, since = float("inf"), None, 0
    for epoch in range(epochs):
        network.train()
        for group in optimiser.param_groups:
            # Down to a 25th over the epochs, by a cosine.
            group["lr"] = rate * (0.52 + 0.48 * np.cos(np.pi * epoch / epochs))
        for found in batches(0, True):
            optimiser.zero_grad()
            total, count = _loss(*found)
            (total / count.clamp(min=1)).backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
        network.eval()
        with torch.no_grad():
            losses = [_loss(*found) for found in batches(1, False)]
        loss = float(sum(total for total, _ in losses) / sum(count for _, count in losses))
        since += 1
        if loss < best:
            best, kept, since = loss, copy.deepcopy(network.state_dict()), 0
        if since >= PATIENCE:
            break
    if kept is not None:
        network.load_state_dict(kept)


def _loss(logits, outcomes, known):
    each = nn.functional.binary_cross_entropy_with_logits(logits, outcomes, reduction="none")
    return (each * known).sum(), known.sum()


def _layers(stack: nn.Sequential) -> list[dict]:
    linear = [layer for layer in stack if isinstance(layer, nn.Linear)]
    return [{
        "weights": file.encoded(layer.weight.detach().numpy(), "<f4"),
        "bias": file.encoded(layer.bias.detach().numpy(), "<f4"),
        "activation": "none" if layer is linear[-1] else "relu"
    } for layer in linear]


def _begin(seed: int, threads: int):
    torch.manual_seed(seed)
    torch.set_num_threads(threads)


def _tensor(table) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(table, dtype=np.float32))


def _outcomes(frame: Frame):
    table = targets(frame)
    return _tensor(np.nan_to_num(table)), _tensor(~np.isnan(table))
