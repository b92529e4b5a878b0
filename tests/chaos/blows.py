"""The blows: each strikes a slot and says how it heals. None: it could not strike."""

import time


class Striker:
    """Carries blows out. `service` is the slots, `network` what can be done to names and disk."""

    def __init__(self, service, network):
        self._service, self._network = service, network
        self._heals = []          # (when, do)
        self.disk_full_since = None
        self.disk_full_times = []  # (begin, end) of the past
        self._disk_until = 0.0
        service.disk_full = self._disk_was_full

    def strike(self, blow):
        """False where the target cannot be struck so now, as when it is down already."""
        now = time.monotonic()
        slot = self._service.by_name[blow.target]
        heal = getattr(self, f"_{blow.kind}")(blow, slot, now)
        if heal is not None and blow.kind in ("stop", "cut", "cut_one"):
            self._service.note_unreached(slot, now)
        if callable(heal):
            self._heals.append((now + blow.seconds, heal))
        return heal is not None

    def tick(self):
        now = time.monotonic()
        due = [heal for at, heal in self._heals if at <= now]
        self._heals = [(at, heal) for at, heal in self._heals if at > now]
        for heal in due:
            heal()

    def heal_all(self):
        for _, heal in self._heals:
            heal()
        self._heals = []
        self._empty_disk()

    # --- Each kind returns how it heals, True if it needs no healing, None if it did not strike ---

    def _kill(self, blow, slot, now):
        return self._service.kill(slot, now, blow.seconds) or None

    def _stop(self, blow, slot, now):
        if not self._service.freeze(slot, now):
            return None
        number = slot.lives
        return lambda: self._service.thaw(slot, number, time.monotonic())

    def _drain(self, blow, slot, now):
        return self._service.drain(slot, now, blow.seconds) or None

    def _cut(self, blow, slot, now):
        if not self._network.connections(slot.address):
            return None
        self._network.close_connections(slot.address)
        return True

    def _cut_one(self, blow, slot, now):
        found = self._network.connections(slot.address)
        if not found:
            return None
        self._network.close_connections(slot.address, found[int(blow.pick * len(found))][0])
        return True

    def _disk_full(self, blow, slot, now):
        self._network.fill_disk()
        self._disk_until = max(self._disk_until, now + blow.seconds)
        if self.disk_full_since is None:
            self.disk_full_since = now
        return self._empty_disk_if_due

    def _empty_disk_if_due(self):
        if time.monotonic() >= self._disk_until:
            self._empty_disk()

    def _disk_was_full(self):
        lately = self.disk_full_times and self.disk_full_times[-1][1] > time.monotonic() - 2
        return self.disk_full_since is not None or lately

    def _empty_disk(self):
        if self.disk_full_since is None:
            return
        self._network.empty_disk()
        self.disk_full_times.append((self.disk_full_since, time.monotonic()))
        self.disk_full_since = None

    def _dns_gone(self, blow, slot, now):
        return self._change_names(self._service.unlisted, slot.name)

    def _dns_dead(self, blow, slot, now):
        return self._change_names(self._service.unresolved, slot.role)

    def _dns_ghost(self, blow, slot, now):
        return self._change_names(self._service.ghosts, slot.name)

    def _change_names(self, changed, what):
        if what in changed:
            return None
        changed.add(what)
        self._service.publish()

        def heal():
            changed.discard(what)
            self._service.publish()
        return heal

    def _dns_move(self, blow, slot, now):
        if not self._service.kill(slot, now, blow.seconds):
            return None
        slot.moves += 1
        self._service.publish()
        return True
