"""Samples of bounded size out of streams of unknown length; every item has the same chance."""

import random

import numpy as np


class Reservoir:
    """Of the items offered, `limit` at random (Vitter's algorithm R)."""

    def __init__(self, limit: int, seed: str):
        self.items = []
        self.offered = 0
        self._limit = limit
        self._random = random.Random(seed)

    def offer(self, make_item):
        """Calls `make_item` only if its item is kept."""
        self.offered += 1
        if len(self.items) < self._limit:
            self.items.append(make_item())
            return
        place = self._random.randrange(self.offered)
        if place < self._limit:
            self.items[place] = make_item()


class RowSample:
    """Of the rows of a stream, about `limit` at random: those with the smallest random keys."""

    def __init__(self, limit: int, seed: int = 1):
        self.offered = 0
        self._limit = limit
        self._random = np.random.default_rng(seed)
        self._below = 1.0  # rows with larger keys are left out
        self._keys, self._rows = [], []
        self._held = 0

    def choose(self, count: int):
        """The next `count` rows of the stream: indices of those to add, and their keys."""
        self.offered += count
        keys = self._random.random(count)
        at = np.flatnonzero(keys < self._below)
        return at, keys[at]

    def add(self, keys: np.ndarray, rows: np.ndarray):
        self._keys.append(keys)
        self._rows.append(rows.astype(np.float32))
        self._held += len(keys)
        if self._held > 2 * self._limit:
            self._thin()

    def rows(self) -> np.ndarray | None:
        if self._held > self._limit:
            self._thin()
        return np.concatenate(self._rows) if self._rows else None

    def _thin(self):
        keys, rows = np.concatenate(self._keys), np.concatenate(self._rows)
        self._below = np.partition(keys, self._limit)[self._limit]
        kept = keys < self._below
        self._keys, self._rows = [keys[kept]], [rows[kept]]
        self._held = int(kept.sum())
