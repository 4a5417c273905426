"""Spark's Java classes, read and checked once: a session that finds them so starts in half the time.

Java can keep what it made of the classes of a program in a file, for later programs to share. The file is good for one
Java and one installation of Spark. If either has changed since, Java leaves it alone and starts as it always did.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

from tidemill.errors import EngineError

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"  # Java would complain on standard output, which belongs to the user


def locate_archive() -> Path:
    """Where the archive of this installation is, once it was made."""
    return Path(sys.prefix) / "share" / "tidemill" / f"spark-{pyspark.__version__}.jsa"


def build_archive_options() -> str:
    """What Java is to be told, so that it uses the archive; nothing if there is none."""
    return f'"-XX:SharedArchiveFile={locate_archive()}" {_QUIET}' if locate_archive().exists() else ""


def build_archive() -> Path:
    """Make the archive anew. It takes as long as a few starts of Spark."""
    target = locate_archive()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent) as scratch:
            made = Path(scratch) / target.name
            command = [sys.executable, "-m", "tidemill.spark.class_archive_process", str(made)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if not made.exists():
                raise EngineError(
                    f"no archive of Spark's classes was made: {done.stderr.strip() or done.stdout.strip()}"
                )
            made.replace(target)
    except OSError as error:
        raise EngineError(f"the archive of Spark's classes cannot be written to {target.parent}: {error}") from error
    return target


def build_recording_options(made: Path) -> str:
    """What Java is to be told, so that it makes an archive when it ends."""
    return f'"-XX:ArchiveClassesAtExit={made}" {_QUIET}'
