"""A process as a container runtime starts it: the image's user and variables, PID 1, a root that is only read.

Needs root (`check`). Containers share the network of the test, which may be one of its own (`own_network`).
"""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys

import packages

sys.path.insert(0, str(packages.ROOT / "tests/e2e"))
from cluster import PATIENCE_S, Failure, Process, wait_until  # noqa: E402

CLONE_NEWNET = 0x40000000
SUBNET = "10.77.0"
DEVICES = ("null", "zero", "full", "random", "urandom")

# Mounts what a runtime mounts, then becomes the program. $1: the root, $2: volumes as SOURCE:TARGET:ro|rw, one per
# line, $3: the file with the names of others, $4: its address, or nothing for the network of the test; then what
# `env -i` takes.
START = """
set -eu
root=$1 volumes=$2 hosts=$3 address=$4
shift 4
mount --bind "$root" "$root"
mount -t tmpfs -o mode=755 dev "$root/dev"
mkdir "$root/dev/shm"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
for device in %s; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mount -t proc proc "$root/proc"
mount --rbind -o ro /sys "$root/sys"
mount -t tmpfs -o mode=1777,size=64m tmp "$root/tmp"
printf '%%s' "$volumes" | while IFS=: read -r source target access; do
  mkdir -p "$root$target"
  mount --bind "$source" "$root$target"
  mount -o "remount,bind,$access" "$root$target"
done
mount --bind "$hosts" "$root/etc/hosts"
mount -o remount,bind,ro "$root"
tries=0
until [ -z "$address" ] || ip -4 address show | grep -q "$address"; do
  tries=$((tries + 1))
  [ $tries -lt 600 ] || { echo "no address $address" >&2; exit 1; }
  sleep 0.05
done
exec env -i "$@"
""" % " ".join(DEVICES)


def check():
    """Ends the test as skipped where containers cannot be started by hand."""
    if os.geteuid() != 0:
        packages.skip("containers are started by hand here, which takes root")
    attempt = ["unshare", "--mount", "--net", "--pid", "--fork", "mount", "-t", "tmpfs", "any", "/mnt"]
    if subprocess.run(attempt, capture_output=True, check=False).returncode != 0:
        packages.skip("namespaces and mounts are not allowed here")


def own_network():
    """From now on this process and what it starts have a loopback of their own, and nothing else."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "a network of its own")
    _ip("link", "set", "lo", "up")


def bridge():
    """A switch in the test's own network, which containers with an address are plugged into. False: not here."""
    for kind in ("bridge", "veth"):
        attempt = ["unshare", "--net", "ip", "link", "add", "any", "type", kind]
        if subprocess.run(attempt, capture_output=True, check=False).returncode != 0:
            return False
    _ip("link", "add", "containers", "type", "bridge")
    _ip("address", "add", f"{SUBNET}.1/24", "dev", "containers")
    _ip("link", "set", "containers", "up")
    return True


def _ip(*arguments):
    packages.call("ip", *arguments)


class Container(Process):
    """`command` as it stands behind the image's name; volumes: [(folder here, folder there, "ro" or "rw")].

    `address` is one of SUBNET for a container on the bridge, `hosts` {name: address} of others there.
    """

    def __init__(self, name, image, command, folder, volumes=(), environment=None, address="", hosts=None):
        self._image = image
        self._address = address
        self._variables = ["env", "-i", *image.settings["Env"],
                           *(f"{key}={value}" for key, value in (environment or {}).items())]
        mounts = "".join(f"{source}:{target}:{access}\n" for source, target, access in volumes)
        names = pathlib.Path(folder) / f"{name}.hosts"
        known = {"localhost": "127.0.0.1", **(hosts or {})}
        names.write_text("".join(f"{where} {who}\n" for who, where in known.items()))
        (image.files / "etc/hosts").touch()  # as a runtime makes what it mounts over
        super().__init__(name, [
            "unshare", "--mount", "--pid", *(["--net"] if address else []), "--fork", "--kill-child",
            "--propagation", "private", "sh", "-c", START, "container", image.files, mounts, names, address,
            *self._variables[2:],
            # Those of this machine, before its root is left.
            "/usr/bin/setpriv", "--no-new-privs", "/usr/sbin/chroot", f"--userspec={image.settings['User']}",
            "--groups=", image.files, *command], folder)
        if address:
            self._plug()

    def _plug(self):
        first = wait_until(lambda: self._children() and self.first(), f"{self.name} to begin")
        cable = "c" + self._address.rpartition(".")[2]
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(first))
        _ip("link", "set", cable, "master", "containers", "up")
        for words in (["link", "set", "lo", "up"], ["link", "set", "eth0", "up"],
                      ["address", "add", f"{self._address}/24", "dev", "eth0"]):
            packages.call("nsenter", f"--target={first}", "--net", "ip", *words)

    @property
    def admin(self):
        where = super().admin
        return where.replace("0.0.0.0", self._address) if self._address else where

    def _children(self):
        return pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()

    def first(self):
        """The process that is PID 1 in there, by its number here."""
        children = self._children()
        if len(children) != 1:
            raise Failure(f"{self.name} has {len(children)} first processes:\n{self.tail()}")
        return int(children[0])

    def status(self, key):
        """A line of the first process's /proc/PID/status."""
        lines = pathlib.Path(f"/proc/{self.first()}/status").read_text().splitlines()
        return next(line.partition(":")[2].split() for line in lines if line.startswith(f"{key}:"))

    def mounted(self, path):
        """The path as this machine sees it through the container's mounts."""
        return pathlib.Path(f"/proc/{self.first()}/root{path}")

    def run(self, *command):
        """As `docker exec`, and as a health check: exit code and output."""
        user, _, group = self._image.settings["User"].partition(":")
        return subprocess.run([*self._variables, "/usr/bin/nsenter", f"--target={self.first()}", "--mount", "--pid", "--net",
                               "--root", f"--setuid={user}", f"--setgid={group}", "--", *command],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def wait_healthy(self):
        """Until the image's health check says so."""
        check = self._image.settings["Healthcheck"]["Test"][1:]
        wait_until(lambda: self.run(*check).returncode == 0,
                   lambda: f"{self.name} to be healthy:\n{self.tail()}")
        return self

    def terminate(self, timeout_s=None):
        """SIGTERM to PID 1, as `docker stop`; the exit code."""
        if self.running():
            os.kill(self.first(), signal.SIGTERM)
        try:
            return self._popen.wait(timeout_s or PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} did not end after SIGTERM:\n{self.tail()}") from None
