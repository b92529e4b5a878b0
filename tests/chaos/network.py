"""Names, disk and connections of the run alone: a network and mount namespace of its own.

Root only. Without it `enter` says what is left out, and the processes share loopback with others.
"""

import ctypes
import errno
import fcntl
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

INSIDE = "BATON_CHAOS_NAMESPACE"
_HOSTS_BYTES = 4096
_ZEROS = bytes(4 << 20)
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def entering():
    """Whether this process is the first one, which `enter` may start again."""
    return INSIDE not in os.environ


def enter():
    """Starts this command again in namespaces of its own if it may; else says what is left out."""
    if INSIDE in os.environ:
        _loopback_up()
        return
    if os.geteuid() != 0 or not shutil.which("unshare"):
        why = "needs root"
    elif subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True,
                        check=False).returncode != 0:
        why = "namespaces are not allowed here"
    else:
        sys.stdout.flush()
        os.execvpe("unshare", ["unshare", "--mount", "--net", sys.executable, "-B", *sys.argv],
                   {**os.environ, INSIDE: "1"})
    print(f"SKIPPED full disk, DNS changes and closed sockets: {why}", flush=True)


def _loopback_up():
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16xh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[0]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


class Network:
    """What of it there is. Inside the namespaces every process has an address of its own."""

    def __init__(self, folder):
        self.own = INSIDE in os.environ
        self.folder = pathlib.Path(folder)
        self.abilities = set()
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        if self.own:
            self.names = Names(self.folder)
            _mount("tmpfs", self.disk, "tmpfs", 0, "size=256m")
            self.abilities |= {"dns", "disk"}
            if _can_close_sockets():
                self.abilities.add("sockets")
            else:
                print("SKIPPED closed sockets: `ss -K` (Debian's iproute2) closes none here",
                      flush=True)

    def close(self):
        if self.own:
            _umount(self.disk)
            self.names.close()

    def fill_disk(self):
        """Leaves not a byte of room."""
        filler = os.open(self.disk / "filler", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            while True:
                os.write(filler, _ZEROS)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        finally:
            os.close(filler)

    def empty_disk(self):
        (self.disk / "filler").unlink(missing_ok=True)

    @staticmethod
    def connections(address):
        """Both ends of each established connection to `address`."""
        listed = subprocess.run(["ss", "-Htn", "state", "established", f"dst {address}"],
                                capture_output=True, text=True, check=True).stdout
        return sorted(tuple(line.split()[2:4]) for line in listed.splitlines())

    @staticmethod
    def close_connections(address, source=None):
        what = f"dst {address}" + (f" and src {source}" if source else "")
        subprocess.run(["ss", "-K", "-Htn", what], capture_output=True, check=True)


class Names:
    """The host names that processes here resolve, kept in a file that only they see."""

    def __init__(self, folder):
        self._file = folder / "hosts"
        nsswitch = folder / "nsswitch.conf"
        nsswitch.write_text("hosts: files\n")
        self.set({})
        self._mounted = []
        for source, target in ((self._file, "/etc/hosts"), (nsswitch, "/etc/nsswitch.conf")):
            _mount(source, target, None, _MS_BIND, None)
            self._mounted.append(target)

    def set(self, addresses):
        """`addresses` by name. One write of one size, so that no reader finds half of it."""
        lines = "".join(f"{host} {name}\n" for name, hosts in addresses.items() for host in hosts)
        content = ("127.0.0.1 localhost\n" + lines).encode()
        with open(self._file, "r+b" if self._file.exists() else "w+b", buffering=0) as file:
            file.write(content.ljust(_HOSTS_BYTES, b"\n"))

    def close(self):
        for target in self._mounted:
            _umount(target)


_MS_BIND = 4096
_libc = ctypes.CDLL(None, use_errno=True)


def _mount(source, target, kind, flags, options):
    def text(value):
        return None if value is None else os.fsencode(value)
    if _libc.mount(text(source), text(target), text(kind), flags, text(options)) != 0:
        raise OSError(ctypes.get_errno(), f"cannot mount {source} at {target}")


def _umount(target):
    _libc.umount2(os.fsencode(target), 2)  # MNT_DETACH: processes may still be there


def _can_close_sockets():
    if not shutil.which("ss"):
        return False
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with socket.create_connection(server.getsockname()) as here, server.accept()[0]:
            address = "%s:%d" % server.getsockname()
            subprocess.run(["ss", "-K", "-Htn", f"dst {address}"], capture_output=True, check=False)
            here.settimeout(1)
            try:
                here.recv(1)
                return False
            except TimeoutError:
                return False
            except OSError:
                return True


def scratch():
    return tempfile.TemporaryDirectory(prefix="baton-chaos-")
