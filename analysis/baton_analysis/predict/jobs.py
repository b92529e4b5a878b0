"""Work on what is in memory by several processes, which inherit it."""

import multiprocessing

_work = None


def side_by_side(work, items: list, jobs: int) -> list:
    """`work` of each item, in order. Any callable will do; its results must be plain data."""
    if jobs <= 1 or len(items) <= 1:
        return [work(item) for item in items]
    global _work
    _work = work, items
    try:
        with multiprocessing.get_context("fork").Pool(jobs) as pool:
            return pool.map(_of, range(len(items)), chunksize=1)
    finally:
        _work = None


def _of(place: int):
    work, items = _work
    return work(items[place])
