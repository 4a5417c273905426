"""Check that this machine has Python 3.11+ and Java 17+, and report which of them is missing.

Runs with any Python 3 and the standard library alone.
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


def find_java():
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java")


def check_java():
    command = find_java()
    if command is None:
        return "No Java was found on PATH, and JAVA_HOME is not set."
    try:
        result = subprocess.run([command, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    except OSError as error:
        return "Java could not be started: %s" % error
    text = result.stdout.decode("utf-8", "replace")
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return "%s does not say its version: %s" % (command, text.strip() or "it printed nothing")
    major = int(match.group(2) or 0) if match.group(1) == "1" else int(match.group(1))
    return None if major >= 17 else "%s is Java %d." % (command, major)


def check_python():
    if sys.version_info >= (3, 11):
        return None
    return "This is Python %d.%d; Tidemill needs 3.11 or newer. Try: make PYTHON=python3.11 …" % sys.version_info[:2]


def main():
    java = check_java()
    problems = [p for p in (check_python(), java and java + "\n" + JAVA_HELP) if p]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
