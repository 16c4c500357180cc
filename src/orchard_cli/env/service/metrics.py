"""Counters and times for Prometheus; each service has a registry of its own."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ...errors import Fault

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 600)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("operation",)
        self._seconds = Histogram(
            "orchard_env_seconds", "Time of an operation", labels, buckets=SECONDS, registry=self.registry
        )
        self._requests = Counter("orchard_env_requests", "Requests", ("route", "status"), registry=self.registry)
        self._faults = Counter("orchard_env_faults", "Faults", ("code", "attributable"), registry=self.registry)
        self._sandboxes = Gauge("orchard_env_sandboxes", "Sandboxes held", ("state",), registry=self.registry)
        self._execs = Gauge("orchard_env_commands_running", "Commands that run now", registry=self.registry)
        self.audit_lost = Counter("orchard_env_audit_lost", "Audit lines not written", registry=self.registry)

    @contextmanager
    def timed(self, operation: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds.labels(operation).observe(time.perf_counter() - began)

    def seen(self, route: str, status: int, seconds: float) -> None:
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def fault(self, fault: Fault) -> None:
        code = fault.code if len(fault.code) < 64 else "long"
        self._faults.labels(code, fault.attributable).inc()

    def page(self, states: dict[str, int], running: int) -> bytes:
        """What /metrics answers."""
        self._sandboxes.clear()
        for state, count in states.items():
            self._sandboxes.labels(state).set(count)
        self._execs.set(running)
        return generate_latest(self.registry)
