"""Summaries of errors without values of rows: the class, the place in the user's code, and a masked first line.

The text of an error is a template of some program, filled with values. The parts that are known to belong to the
template stay:
- Tidemill's own messages never contain values, nor do those about names in users' code;
- of an error raised in Python, the words that its `raise` statement itself contains;
- of an error raised by Python's interpreter, the text outside quotes, without numbers;
- of Spark's errors about a query (not about its data), the text with its identifiers, without literals and numbers;
- of Spark's other errors, the error condition.
Of any other error only the class and the place are shown; the run's log has its text.
"""

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType

from tidemill import errors
from tidemill.errors import TidemillError
from tidemill.model.location import SourceLocation
from tidemill.model.source_code import is_project, read_tree

MASK = "***"

MAX_SUMMARY_CHARACTERS = 400

OWN_MESSAGE = "tidemill: "
"""Begins the messages without values that Tidemill lets Spark raise while it reads rows."""

_SPARK_PACKAGES = frozenset({"pyspark", "py4j"})
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]\s*(.*)")
_SQLSTATE = re.compile(r"SQLSTATE: (\w{5})")
QUERY_STATES = ("42", "0A")
"""Classes of SQLSTATE for errors that Spark finds in the text of a query, before it reads a row."""

_JAVA_ERROR = re.compile(r"\b(?:[a-z]\w*\.)+[A-Z]\w*(?:Error|Exception)\b")

_REMOTE_TRACEBACK = "Traceback (most recent call last):"
_REMOTE_FRAME = re.compile(r'^\s*File "([^"\n]+)", line (\d+)', re.MULTILINE)
_REMOTE_ERROR = re.compile(r"^((?:\w+\.)*[A-Z]\w*)(?:: (.*))?$", re.MULTILINE)

_QUOTE_1, _QUOTE_2 = r"(?<!\w)b?'(?:\\.|[^'\\])*(?:'|$)", r'"(?:\\.|[^"\\])*(?:"|$)'
_LITERALS = re.compile(_QUOTE_1)
_QUOTED = re.compile(f"{_QUOTE_1}|{_QUOTE_2}")
_UNQUOTED = re.compile(r"^.*(?= is not in list$)")
_URL = re.compile(r"\b[A-Za-z][\w+.-]*://\S+")
_NUMBER = re.compile(r"(?<![\w`])[-+]?\d[\w.:+-]*\w|(?<![\w`])\d")
_POSITION = re.compile(r"SQLSTATE: \w{5}|\[Errno -?\d+\]|\b(?:line|pos|position|base|argument|byte) \d+|`[^`]*`")
"""Parts of a text in which numbers are no values."""

_ALL_VALUE = frozenset({"KeyError", "StopIteration", "SystemExit"})
"""Errors of the interpreter whose text is nothing but a value."""

_ABOUT_CODE = frozenset({"AttributeError", "ImportError", "TypeError"})
"""Errors about names in users' code, where Tidemill raises them: a name that it renamed, or an unknown option."""

_PACKAGE = str(Path(errors.__file__).parent)

_TYPE_NAMES = frozenset(n for n, v in vars(builtins).items() if isinstance(v, type)) | {"NoneType", "function"}


@dataclass(frozen=True, slots=True)
class _Failure:
    """An error, in this process or another: the name of its class, its text, and its frames from the outermost on."""

    kind: str
    text: str
    frames: tuple[SourceLocation, ...]
    names: frozenset[str] = frozenset()  # names of code that its text quotes

    @property
    def place(self) -> SourceLocation | None:
        """The innermost frame of the user's project."""
        return next((f for f in reversed(self.frames) if _is_user_file(f.file)), None)

    @property
    def is_builtin(self) -> bool:
        return isinstance(getattr(builtins, self.kind, None), type) and self.kind not in _ALL_VALUE


def summarize_error(error: BaseException) -> str:
    """The error in a few words, without values of rows; Tidemill's own errors keep their message.

    >>> summarize_error(ZeroDivisionError("division by zero"))
    'ZeroDivisionError'
    >>> summarize_error(TidemillError("there is no channel 'a'"))
    "there is no channel 'a'"
    """
    if isinstance(error, TidemillError):
        return str(error) or type(error).__name__
    text = str(error)
    if has_remote_traceback(error):
        return _format_summary(failure := _parse_remote(text), _mask_python(failure))
    if is_spark_error(error):
        return format_summary(error, _mask_spark(text))
    failure = _build_failure(error)
    return _format_summary(failure, _mask_python(failure))


def format_summary(error: BaseException, text: str) -> str:
    """The summary of an error with a text that is known to contain no values."""
    return _format_summary(_build_failure(error), text)


def is_spark_error(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in _SPARK_PACKAGES


def has_remote_traceback(error: BaseException) -> bool:
    """Whether the error reports one of a Python worker process, with its stack trace as text."""
    return _REMOTE_TRACEBACK in str(error)


def mask_values(text: str, *, keep: frozenset[str] = frozenset()) -> str:
    """The text without quoted values, URLs and numbers; quoted names in `keep` stay.

    >>> mask_values("could not convert string to float: 'x7'")
    'could not convert string to float: ***'
    >>> mask_values("took 17 of 2024-01-05T07:00 at `c7` (line 3)")
    'took *** of *** at `c7` (line 3)'
    """
    return _mask_numbers(_QUOTED.sub(lambda m: m[0] if m[0][1:-1] in keep else MASK, _URL.sub(MASK, text)))


def mask_literals(text: str) -> str:
    """A text about a query without its literals and numbers; its names and expressions stay."""
    return _mask_numbers(_LITERALS.sub(MASK, text))


def _mask_numbers(text: str) -> str:
    pieces, end = list[str](), 0
    for match in _POSITION.finditer(text):
        pieces += [_NUMBER.sub(MASK, text[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*pieces, _NUMBER.sub(MASK, text[end:])])


def _format_summary(failure: _Failure, text: str) -> str:
    line = " ".join(text.split())[:MAX_SUMMARY_CHARACTERS]
    informative = line if re.search(r"[A-Za-z]", line) else ""
    place = "" if failure.place is None else f" ({failure.place})"
    return failure.kind + (f": {informative}" if informative else "") + place


def _mask_spark(text: str) -> str:
    """Spark's first line with its condition; of an error without one, the classes of Java's errors."""
    line = _take_informative_line(text)
    condition = _CONDITION.match(line)
    if condition is None:
        return ", ".join(dict.fromkeys(_JAVA_ERROR.findall(text)[:2]))
    state = _SQLSTATE.search(text)
    if state is not None and state[1].startswith(QUERY_STATES):
        return f"[{condition[1]}] {mask_literals(condition[2])}"
    return f"[{condition[1]}]"


def _take_informative_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if _CONDITION.match(line)), lines[0] if lines else "")


def _mask_python(failure: _Failure) -> str:
    line = _take_informative_line(failure.text)
    innermost = failure.frames[-1] if failure.frames else None
    if innermost is None or not line:
        return ""
    template = find_template_words(innermost.file, innermost.line)
    if template and failure.kind in _ABOUT_CODE and innermost.file.startswith(_PACKAGE):
        return line
    if template:
        return _keep_words(line, template)
    is_native = template is not None and failure.is_builtin
    return mask_values(_UNQUOTED.sub(MASK, line), keep=failure.names | _TYPE_NAMES) if is_native else ""


def find_template_words(file: str, line: int) -> frozenset[str] | None:
    """The words in the texts of the `raise` or `assert` statement on a line.

    Empty if the line has no such statement: then Python's interpreter, or a module in C, raised the error. None if the
    file cannot be read, or the statement has no text: then nothing is known about the error's text.
    """
    tree = read_tree(file)
    if tree is None:
        return None
    statement = _find_raise(tree, line)
    return frozenset() if statement is None else (_list_words(statement) or None)


@lru_cache(maxsize=256)
def _find_raise(tree: ast.Module, line: int) -> ast.stmt | None:
    found = (n for n in ast.walk(tree) if isinstance(n, ast.Raise | ast.Assert) and n.lineno <= line <= _get_end(n))
    return max(found, key=lambda n: n.lineno, default=None)


def _get_end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _list_words(node: ast.AST) -> frozenset[str]:
    texts = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return frozenset(_strip_word(word) for text in texts for word in text.split()) - {""}


def _strip_word(word: str) -> str:
    return word.strip(".,:;!?()[]{}<>'\"`")


def _keep_words(line: str, template: frozenset[str]) -> str:
    """The line with all words that are not in the template masked, several in a row as one.

    >>> _keep_words("customer Ann Lee has no address", frozenset("customer has no address".split()))
    'customer *** has no address'
    """
    words: list[str] = []
    for word in line.split():
        shown = word if _strip_word(word) in template else MASK
        if shown != MASK or words[-1:] != [MASK]:
            words.append(shown)
    return " ".join(words)


def _build_failure(error: BaseException) -> _Failure:
    frames = tuple(_list_frames(error.__traceback__))
    return _Failure(type(error).__name__, str(error), frames, _list_names(error))


def _list_frames(trace: TracebackType | None) -> Iterator[SourceLocation]:
    while trace is not None:
        yield SourceLocation(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next


def _list_names(error: BaseException) -> frozenset[str]:
    """Names of variables, attributes and modules that the interpreter quotes in the error's text."""
    if not isinstance(error, NameError | AttributeError | ImportError):
        return frozenset()
    owner = type(getattr(error, "obj", None)).__name__
    names = (getattr(error, "name", None), getattr(getattr(error, "obj", None), "__name__", None), owner)
    return frozenset(name for name in names if isinstance(name, str))


def _parse_remote(text: str) -> _Failure:
    """The error that a worker process of Spark reports as text: its last frame, and the line below it."""
    trace = text[text.index(_REMOTE_TRACEBACK) + len(_REMOTE_TRACEBACK) :]
    frames = tuple(SourceLocation(file, int(line)) for file, line in _REMOTE_FRAME.findall(trace))
    last = max((m.end() for m in _REMOTE_FRAME.finditer(trace)), default=0)
    raised = _REMOTE_ERROR.search(trace, last)
    kind = raised[1].rpartition(".")[2] if raised else "Exception"
    return _Failure(kind, (raised[2] or "") if raised else "", frames)


def _is_user_file(file: str) -> bool:
    return not file.startswith("<") and not file.endswith((".pyx", ".pxi", ".pyd")) and is_project(file)
