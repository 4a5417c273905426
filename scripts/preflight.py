"""Say what is missing on this machine before anything else can fail: Python 3.11+ and Java 17+.

Runs with any Python 3 and imports nothing but the standard library.
"""

import os
import re
import shutil
import subprocess
import sys

JAVA_HELP = (
    "Spark needs Java 17 or newer. Install one, for example\n"
    "    Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless\n"
    "    macOS:           brew install openjdk@17\n"
    "or point JAVA_HOME at one, and run the command again."
)


def java_command():
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java")


def java_problem():
    command = java_command()
    if command is None:
        return "No Java was found on PATH, and JAVA_HOME is not set."
    try:
        done = subprocess.run([command, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    except OSError as error:
        return "Java could not be started: %s" % error
    text = done.stdout.decode("utf-8", "replace")
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return "%s does not say its version: %s" % (command, text.strip() or "it printed nothing")
    major = int(found.group(2) or 0) if found.group(1) == "1" else int(found.group(1))
    return None if major >= 17 else "%s is Java %d." % (command, major)


def python_problem():
    if sys.version_info >= (3, 11):
        return None
    return "This is Python %d.%d; Tidemill needs 3.11 or newer. Try: make PYTHON=python3.11 …" % sys.version_info[:2]


def main():
    java = java_problem()
    problems = [p for p in (python_problem(), java and java + "\n" + JAVA_HELP) if p]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
