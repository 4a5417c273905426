"""Operations of a worker that do what users' code may do to its process; without Spark."""

from __future__ import annotations

import ctypes
import locale
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import timeit
from pathlib import Path
from typing import Any

from tidemill.errors import WorkflowError
from tidemill.model import units
from tidemill.workers.service import serve_calls


class Exploit:
    """An object whose unpickling would execute a function in the server."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch exploited",)


class HarmfulOperations:
    def __init__(self) -> None:
        self.failure: str | None = None

    def find_failure(self) -> str | None:
        return self.failure

    def echo(self, value: Any) -> Any:
        return value

    def measure_niceness(self) -> int:
        """The niceness of a program that this process starts."""
        return int(subprocess.run(["nice"], capture_output=True, text=True, check=True).stdout)

    def get_process(self) -> int:
        return os.getpid()

    def describe_process(self) -> tuple[str, str | None, str, int, str]:
        mask = os.umask(0)
        os.umask(mask)
        return str(Path.cwd()), os.environ.get("HARM"), locale.setlocale(locale.LC_ALL), mask, time.tzname[0]

    def get_handler(self) -> bool:
        return signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL

    def raise_refusal(self) -> None:
        raise WorkflowError(["workflow.py:3: first", "workflow.py:4: second"])

    def raise_foreign(self) -> None:
        raise ZeroDivisionError("division by zero")

    def return_exploit(self) -> Any:
        return Exploit()

    def return_lambda(self) -> Any:
        return lambda: None

    # What follows harms the process.

    def allocate_memory(self) -> None:
        hoard = []
        while True:
            hoard.append(b"x" * (16 << 20))

    def start_bomb(self) -> None:
        while True:
            subprocess.Popen(["sleep", "600"], start_new_session=True)  # small: processes are to run out, not memory

    def leave_daemon(self) -> None:
        """A program whose parent has ended."""
        loop = [sys.executable, "-c", "while True: pass"]
        code = f"import subprocess; subprocess.Popen({loop!r}, start_new_session=True)"
        subprocess.run([sys.executable, "-c", code], check=True, start_new_session=True)

    def fill_disk(self) -> None:
        directory = Path(tempfile.gettempdir())
        for number in range(10_000):
            (directory / f"part{number}").write_bytes(b"x" * (1 << 20))
        time.sleep(600)

    def write_large_file(self) -> None:
        with tempfile.TemporaryFile() as file:
            for _ in range(10_000):
                file.write(b"x" * (1 << 20))

    def close_descriptors(self) -> None:
        os.closerange(3, 4096)
        time.sleep(600)

    def hold_interpreter(self) -> None:
        ctypes.PyDLL(None).sleep(600)  # C code that does not release the interpreter

    def kill_process(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def exit_process(self) -> None:
        os._exit(3)

    def raise_exit(self) -> None:
        sys.exit("bye")

    # What follows leaves something behind.

    def change_process(self) -> None:
        os.chdir("/")
        os.environ["HARM"] = "done"
        os.environ["TZ"] = "Asia/Tokyo"
        time.tzset()
        locale.setlocale(locale.LC_ALL, "C.UTF-8")
        os.umask(0o777)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def leave_thread(self) -> None:
        threading.Thread(target=_spin, daemon=True).start()

    def leave_program(self) -> None:
        subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def replace_function(self) -> None:
        units.format_size = lambda size: "replaced"

    def spin_in_background(self) -> None:
        """A thread of a library, not of the project, that computes for ever."""
        threading.Thread(target=timeit.timeit, kwargs={"number": 10**15}, daemon=True).start()

    def lose_engine(self) -> None:
        self.failure = "the engine is gone"

    def send_garbage(self) -> None:
        """Write to every socket that this process has."""
        for descriptor in range(3, 64):
            try:
                with socket.socket(fileno=os.dup(descriptor)) as connection:
                    connection.sendall(b"\0\0\0\4" + pickle.dumps(1)[:4])
            except OSError:
                continue
        time.sleep(600)


def _spin() -> None:
    while True:
        pass


if __name__ == "__main__":
    serve_calls(int(sys.argv[1]), sys.argv[2], lambda _setup: HarmfulOperations())
