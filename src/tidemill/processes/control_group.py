"""Control groups of Linux: the kernel limits the memory of all processes of a group together.

Where this process may create groups (as root, in most containers, or in a service with `Delegate=` and
`DelegateSubgroup=server`), a group is a limit without delay. Elsewhere there is none, and memory is only measured.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "tidemill-"
DELEGATED_SUBGROUP = "server"
"""The group of the server itself, if its parent is the one that was delegated: a parent of groups has no processes."""


@dataclass(frozen=True, slots=True)
class GroupFiles:
    """The names of the files of one version of control groups."""

    limit: str
    swap_limit: str
    events: str


VERSION_1 = GroupFiles("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control")
VERSION_2 = GroupFiles("memory.max", "memory.swap.max", "memory.events")


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A group with a limit of memory, in bytes."""

    directory: Path
    files: GroupFiles

    def add_process(self, process: int) -> bool:
        """Add a process and all that it will start; False if that is not allowed."""
        try:
            (self.directory / "cgroup.procs").write_text(str(process))
        except OSError:
            return False
        return True

    def has_run_out(self) -> bool:
        """Whether the kernel has killed a process of the group, because the memory was used up."""
        try:
            events = (self.directory / self.files.events).read_text()
        except OSError:
            return False
        return re.search(r"^oom_kill [1-9]", events, re.MULTILINE) is not None

    def remove(self) -> None:
        """Remove the group, unless processes are left in it; the next server removes it then."""
        with suppress(OSError):
            self.directory.rmdir()


def create_control_group(name: str, memory: int) -> ControlGroup | None:
    """Create a group below that of this process; None where that is not possible."""
    found = _find_parent(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())
    if found is None:
        return None
    parent, files = found
    group = ControlGroup(parent / f"{_PREFIX}{os.getpid()}-{name}", files)
    try:
        for old in parent.glob(f"{_PREFIX}*"):
            if not Path(f"/proc/{old.name.split('-')[1]}").exists():
                ControlGroup(old, files).remove()
        if files is VERSION_2:
            (parent / "cgroup.subtree_control").write_text("+memory")
        group.directory.mkdir()
        (group.directory / files.limit).write_text(str(memory))
    except OSError:  # it is not delegated, or belongs to another user
        group.remove()
        return None
    with suppress(OSError):  # a kernel that does not count swap space
        (group.directory / files.swap_limit).write_text("0" if files is VERSION_2 else str(memory))
    if files is VERSION_2:
        with suppress(OSError):
            (group.directory / "memory.oom.group").write_text("1")
    return group


def _find_parent(own_groups: str, mounts: str) -> tuple[Path, GroupFiles] | None:
    """The directory for new groups, by this process's groups and the mounted file systems.

    >>> mounts = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
    >>> _find_parent("0::/system.slice/tidemill.service/server", mounts)[0].as_posix()
    '/sys/fs/cgroup/system.slice/tidemill.service'
    >>> mounts = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
    >>> _find_parent("4:memory:/jobs", mounts)[0].as_posix()
    '/sys/fs/cgroup/memory/jobs'
    """
    groups = {line.split(":", 2)[1]: line.split(":", 2)[2] for line in own_groups.splitlines()}
    for line in mounts.splitlines():
        mount, _, kind = line.partition(" - ")
        root, point = mount.split()[3:5]
        file_system, _, options = kind.split()[:3]
        is_first = file_system == "cgroup" and "memory" in options.split(",")
        own = groups.get("memory") if is_first else groups.get("") if file_system == "cgroup2" else None
        if own is None or ("memory" in groups and not is_first):
            continue
        directory = Path(point) / os.path.relpath(own, root)
        is_delegated = directory.name == DELEGATED_SUBGROUP and not is_first
        return (directory.parent if is_delegated else directory), VERSION_1 if is_first else VERSION_2
    return None
