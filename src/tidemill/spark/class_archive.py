"""An archive of Spark's loaded Java classes (CDS), with which a session starts in half the time.

Java can store the loaded classes of a program in a file that later programs share. The file is valid for one Java and
one installation of Spark. If either has changed since, Java ignores it and starts as usual.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

from tidemill.errors import EngineError

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Java would print warnings to standard output, which belongs to the user."""


def locate_archive() -> Path:
    """The path of this installation's archive, whether or not it exists."""
    return Path(sys.prefix) / "share" / "tidemill" / f"spark-{pyspark.__version__}.jsa"


def build_archive_options() -> str:
    """The Java options to use the archive; empty if there is none."""
    return f'"-XX:SharedArchiveFile={locate_archive()}" {_QUIET}' if locate_archive().exists() else ""


def build_archive() -> Path:
    """Rebuild the archive. It takes as long as a few starts of Spark."""
    target = locate_archive()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent) as scratch:
            built = Path(scratch) / target.name
            command = [sys.executable, "-m", "tidemill.spark.class_archive_process", str(built)]
            process = subprocess.run(command, capture_output=True, text=True, check=False)
            if not built.exists():
                output = process.stderr.strip() or process.stdout.strip()
                raise EngineError(f"no archive of Spark's classes was made: {output}")
            built.replace(target)
    except OSError as error:
        raise EngineError(f"the archive of Spark's classes cannot be written to {target.parent}: {error}") from error
    return target


def build_recording_options(archive: Path) -> str:
    return f'"-XX:ArchiveClassesAtExit={archive}" {_QUIET}'
