"""Recognition of jobs that Spark could not finish for reasons outside of the task, which may pass.

Spark reports a lost executor, shuffle data that cannot be fetched, or a store that does not answer as a failure of the
job. Its text names the Java class of the error, or the reason for which a task was lost, where a message starts. An
error that users' Python code raised is never transient: it is a part of the task.
"""

import re

from tidemill.model.error_summary import has_remote_traceback, is_spark_error

_REASONS = (
    r"ExecutorLostFailure\b",
    r"FetchFailed\(",
    r"(?:java\.io\.\w+: )?No space left on device",
    r"Failed to get broadcast_\w+",
    r"Could not (?:find|read) (?:block|data) (?:broadcast|rdd|shuffle)_\w+",
    r"(?:\w+\.)*(?:Metadata)?FetchFailedException\b",
    r"org\.apache\.spark\.storage\.Block\w*Exception\b",
    r"org\.apache\.spark\.network\.(?:\w+\.)*\w+Exception\b",
    r"org\.apache\.spark\.rpc\.\w+Exception\b",
    r"java\.net\.(?:Connect|NoRouteToHost|PortUnreachable|SocketTimeout|UnknownHost)Exception\b",
    r"java\.nio\.channels\.(?:ClosedChannel|UnresolvedAddress)Exception\b",
    r"(?:\w+\.)*netty\.(?:\w+\.)*\w*(?:Connect|Timeout)\w*Exception\b",
    r"(?:\w+\.)*http\.(?:\w+\.)*(?:\w*Connect\w*|NoHttpResponse)Exception\b",
    r"org\.apache\.hadoop\.(?:net|ipc)\.(?!RemoteException)\w+Exception\b",
    r"org\.apache\.hadoop\.fs\.s3a\.AWS(?:NoResponse|ServiceThrottled|Status500|ApiCallTimeout)Exception\b",
    r"(?:com\.amazonaws|software\.amazon\.awssdk\.core\.exception)\.SdkClientException\b",
    r"\[(?:INTERNAL_ERROR_(?:BROADCAST|NETWORK|SHUFFLE)|CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND)\]",
)
_START = r"(?:^(?:Caused by)?:? *|executor \w+\): |\.SparkException: )"
_TRANSIENT = re.compile(f"{_START}(?:{'|'.join(_REASONS)})", re.MULTILINE)


def is_transient(error: BaseException) -> bool:
    """Whether Spark reports that executors, the network or a store failed, and not the task."""
    if not is_spark_error(error) or has_remote_traceback(error):
        return False
    trace = getattr(error, "_stackTrace", None) or getattr(error, "_stacktrace", None)  # of classic Spark, of Connect
    return _TRANSIENT.search(f"{error}\n{trace}") is not None
