"""The EOS logs of the routers: each row once, and all rows of each answer.

Rows may lack only where they were lost as documented: with the last moments of a router that was
killed, or counted by it while the disk was full.
"""

import json

# A router flushes after 0.1 s, if it runs: it may be stopped before, and be killed while it is.
BEFORE_A_KILL_S, AFTER_A_STOP_S = 2, 12


class EosLogs:
    """Reads the logs of `service` (slots) on from where it stopped reading."""

    def __init__(self, service, striker, on_failure):
        self._service, self._striker, self._on_failure = service, striker, on_failure
        self._offsets = {}
        self._rows = {}      # by request id: {(index of the answer, step): row}
        self._missing_before = {}  # by life: rows that lack, of rounds before

    def read(self):
        for path in set(self._service.eos_logs.values()):
            if path.exists():
                self._read(path)

    def _read(self, path):
        with open(path, "rb") as file:
            file.seek(self._offsets.get(path, 0))
            data = file.read()
        whole = data[:data.rfind(b"\n") + 1]
        self._offsets[path] = self._offsets.get(path, 0) + len(whole)
        for line in whole.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                self._on_failure(f"{path.name}: not a row: {line[:200]!r}")
                continue
            rows = self._rows.setdefault(row["request_id"], {})
            place = row.get("index", 0), row["step"]
            if place in rows:
                self._on_failure(f"{path.name}: answer {place[0]} of {row['request_id']} has step {place[1]} twice")
            rows[place] = row

    def missing(self, finished):
        """How many rows lack of each router's living process, and of those that died."""
        lacking, dead = {}, []
        for request_id, answer in finished.items():
            rows = self._rows.get(request_id, {})
            count = sum((index, step) not in rows for index, tokens in (answer.tokens or {}).items()
                        for step in range(1, len(tokens) + 1))
            if not count:
                continue
            life = self._life(answer)
            if life.ended is None:
                lacking[life.slot, life.number] = lacking.get((life.slot, life.number), 0) + count
            elif not self._excused(life, answer):
                dead.append(f"{count} rows of {request_id} lack in the log of "
                            f"{life.slot}.{life.number}")
        return lacking, dead

    def _life(self, answer):
        """The process that gave the answer; when the client read its end, the next one may run."""
        slot = next(s for s in self._service.of("router") if s.address == answer.address)
        lives = [life for life in self._service.lives if life.slot == slot.name]
        return next((life for life in lives if life.ended is None or life.ended >= answer.began),
                    lives[-1])

    def _excused(self, life, answer):
        if life.killed and life.ended <= answer.ended + BEFORE_A_KILL_S + AFTER_A_STOP_S:
            return True
        return any(begin <= answer.ended + AFTER_A_STOP_S and end >= answer.began - 1
                   for begin, end in self._striker.disk_full_times)

    def problem(self, finished):
        """What is wrong with the logs of a quiet service; "" if nothing is (any more)."""
        self.read()
        lacking, dead = self.missing(finished)
        for slot in self._service.of("router"):
            key = (slot.name, slot.lives)
            lost = lacking.get(key, 0) + self._missing_before.get(key, 0)
            try:
                dropped = slot.process.metrics().sum("baton_eos_log_dropped_total")
            except OSError as error:
                return f"{slot.process.name}: no metrics: {error}"
            if lost > dropped:
                dead.append(f"{lost} rows lack in the log of {slot.process.name}, which dropped "
                            f"{dropped:.0f}")
            if dropped and not self._striker.disk_full_times:
                dead.append(f"{slot.process.name} dropped {dropped:.0f} rows on a disk that had "
                            "room")
        return "\n".join(dead)

    def check_tokens(self, finished):
        """Every row that is there has the token of its answer."""
        for request_id, answer in finished.items():
            if answer.tokens is None:
                continue
            for (index, step), row in self._rows.get(request_id, {}).items():
                self._check_row(f"step {step} of answer {index} of {request_id}", step, row,
                                answer.tokens.get(index, []))

    def _check_row(self, name, step, row, tokens):
        if not 1 <= step <= len(tokens):
            self._on_failure(f"the EOS log has {name}, which has {len(tokens)} tokens")
        elif row["current_token_id"] != tokens[step - 1]:
            self._on_failure(f"the EOS log has another token at {name}: {row}")
        elif row["is_finished"] != (step == len(tokens)):
            self._on_failure(f"is_finished at {name}, which has {len(tokens)}: {row}")

    def forget(self, finished):
        """Goes on to the next round, and deletes logs that nobody writes any more."""
        for key, count in self.missing(finished)[0].items():
            self._missing_before[key] = self._missing_before.get(key, 0) + count
        self._rows = {}
        logs = self._service.eos_logs
        current = {logs[slot.name, slot.lives] for slot in self._service.of("router")}
        for key, path in list(logs.items()):
            if path not in current:
                for file in path.parent.glob(path.name + "*"):
                    file.unlink()
                del logs[key]
