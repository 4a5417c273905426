"""Errors of executors, the network and the store may pass; errors of the task and of the query do not."""

from __future__ import annotations

from typing import NoReturn

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.errors import EngineError, EngineLost, RunFailed, TidemillError
from tidemill.spark.engine import SparkEngine

ABORTED = "An error occurred while calling o58.save.\n: org.apache.spark.SparkException: "
LOST_TASK = "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 "
WHERE = "in stage 1.0 (TID 7) (10.0.0.5 executor 1): "

TRANSIENT = {
    "lost executor": f"{LOST_TASK}{WHERE}ExecutorLostFailure (executor 1 exited unrelated to the running tasks)",
    "fetch failed": f"{LOST_TASK}{WHERE}FetchFailed(BlockManagerId(1, 10.0.0.5, 7337, None), shuffleId=0, mapIndex=1",
    "shuffle data": "ShuffleMapStage 3 has failed the maximum allowable number of times: 4. Most recent failure reason:"
    "\norg.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location for shuffle 0 partition 2",
    "block": f"{LOST_TASK}{WHERE}org.apache.spark.storage.BlockFetchException: Failed to fetch block",
    "broadcast": f"{LOST_TASK}{WHERE}org.apache.spark.SparkException: Failed to get broadcast_3_piece0 of broadcast_3",
    "network": f"{LOST_TASK}{WHERE}org.apache.spark.network.client.ChunkFetchFailureException: Failure while fetching",
    "rpc": "Exception thrown in awaitResult:\n\tat x.y(Z.scala:1)\nCaused by: org.apache.spark.rpc.RpcTimeoutException"
    ": Futures timed out after [120 seconds]",
    "refused": f"{LOST_TASK}{WHERE}org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows "
    "to s3a://x. SQLSTATE: 58030\n\tat a.b(C.scala:2)\nCaused by: java.net.ConnectException: Connection refused",
    "http": f"{LOST_TASK}{WHERE}x\nCaused by: org.apache.http.conn.HttpHostConnectException: Connect to store:9000",
    "store": f"{LOST_TASK}{WHERE}x\nCaused by: com.amazonaws.SdkClientException: Unable to execute HTTP request",
    "name node": "Call failed\nCaused by: org.apache.hadoop.ipc.StandbyException: Operation category READ is not",
    "full disk": f"{LOST_TASK}{WHERE}java.io.IOException: No space left on device",
    "condition": "[INTERNAL_ERROR_NETWORK] the channel was closed SQLSTATE: XX000",
}

PERMANENT = {
    "cast": f"{LOST_TASK}{WHERE}org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'x' of "
    "the type STRING cannot be cast to INT",
    "value of a row": f"{LOST_TASK}{WHERE}org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] it says: "
    "java.net.ConnectException: and ExecutorLostFailure",
    "python": f"{LOST_TASK}{WHERE}org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    '  File "/p/tasks.py", line 3, in f\nConnectionRefusedError: [Errno 111]\n\nCaused by: java.net.ConnectException',
    "memory of the driver": "java.lang.OutOfMemoryError: Java heap space",
    "query": "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `a` cannot be resolved. SQLSTATE: 42703",
}


class JavaError(Exception):
    """An error of the Java gateway, with its text only."""


JavaError.__module__ = "py4j.protocol"


def open_no_session() -> SparkSession:
    raise AssertionError("no session is needed")


def report(error: Exception) -> TidemillError:
    def fail() -> NoReturn:
        raise error

    with pytest.raises(TidemillError) as raised, SparkEngine(open_no_session, str)._report_errors("task t"):
        fail()
    return raised.value


@pytest.mark.parametrize("kind", [JavaError, PySparkException])
@pytest.mark.parametrize("name", TRANSIENT)
def test_failures_of_the_cluster_may_pass(name: str, kind: type[Exception]) -> None:
    error = report(kind(ABORTED + TRANSIENT[name]) if kind is JavaError else kind(TRANSIENT[name]))
    assert isinstance(error, EngineError)
    assert not isinstance(error, EngineLost)
    assert error.retry_in
    assert "10.0.0.5" not in str(error)


@pytest.mark.parametrize("name", PERMANENT)
def test_failures_of_the_task_count_as_its_failures(name: str) -> None:
    error = report(JavaError(ABORTED + PERMANENT[name]))
    assert isinstance(error, RunFailed)
    assert error.retry_in is None


def test_an_error_of_users_code_on_the_driver_counts_as_the_tasks() -> None:
    assert isinstance(report(ConnectionRefusedError("java.net.ConnectException: refused")), RunFailed)
