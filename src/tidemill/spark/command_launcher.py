"""Replaces itself by a program with resource limits.

It is called as `python -I -S command_launcher.py MEMORY CPU PROGRAM [ARGUMENT …]`: MEMORY in bytes, CPU in seconds, and
`-` for no limit. The limits are set before the program starts, and its child processes inherit them, each for itself.
It uses the standard library alone, because it runs in an isolated interpreter.
"""

import os
import resource
import sys


def main(memory: str, cpu: str, *argv: str) -> None:
    _limit_resource(resource.RLIMIT_DATA, memory)
    _limit_resource(resource.RLIMIT_CPU, cpu, grace=1)  # SIGXCPU at the limit, SIGKILL after the grace
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.exit(f"program {argv[0]!r} cannot be started: {error.strerror}")


def _limit_resource(kind: int, limit: str, grace: int = 0) -> None:
    if limit != "-":
        soft, hard = int(limit), int(limit) + grace
        _, inherited = resource.getrlimit(kind)
        if inherited != resource.RLIM_INFINITY:  # it cannot be raised
            soft, hard = min(soft, inherited), min(hard, inherited)
        resource.setrlimit(kind, (soft, hard))


if __name__ == "__main__":
    main(*sys.argv[1:])
