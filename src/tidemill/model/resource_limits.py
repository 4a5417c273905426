"""Limits of the resources that a program may use."""

from dataclasses import dataclass

from tidemill.model.units import format_size, format_span


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """The resources that a program uses, with its child processes."""

    memory: int = 0  # bytes
    cpu: float = 0.0  # seconds
    processes: int = 0
    threads: int = 0


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """Limits of a program with its child processes; None: unlimited. They do not change its result."""

    memory: int | None = None  # bytes
    cpu: float | None = None  # seconds
    processes: int | None = None

    def __bool__(self) -> bool:
        return self != ResourceLimits()

    def find_exceeded(self, usage: ResourceUsage) -> str | None:
        """The first limit that is exceeded; None if there is none.

        >>> ResourceLimits(processes=2).find_exceeded(ResourceUsage(processes=3))
        'exceeded its limit of 2 processes: it has 3'
        """
        if self.memory is not None and usage.memory > self.memory:
            return f"{self.describe_memory()}: it uses {format_size(usage.memory)}"
        if self.cpu is not None and usage.cpu > self.cpu:
            return f"{self.describe_cpu()}: it used {format_span(usage.cpu)}"
        if self.processes is not None and usage.processes > self.processes:
            return f"exceeded its limit of {self.processes} processes: it has {usage.processes}"
        return None

    def describe_memory(self) -> str:
        return f"exceeded its memory limit of {format_size(self.memory or 0)}"

    def describe_cpu(self) -> str:
        return f"exceeded its limit of {format_span(self.cpu or 0.0)} of CPU time"


NO_LIMITS = ResourceLimits()
