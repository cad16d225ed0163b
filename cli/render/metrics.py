"""The figures as OpenMetrics text. prometheus-client is imported with this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prometheus_client.core import Metric

    from ...core.metrics import JobFigures

    Values = Callable[[JobFigures], Mapping[Any, float | None]]


class _Figures:
    """What prometheus-client asks for its metrics."""

    def __init__(self, jobs: Sequence[JobFigures]) -> None:
        self._jobs = jobs

    def collect(self) -> Iterator[Metric]:
        """Each metric, with a sample for each job that has one."""
        for name, told, labels, values in _GAUGES:
            unit = "seconds" if name.endswith("_seconds") else ""
            gauge = GaugeMetricFamily(name, told, labels=("job", *labels), unit=unit)
            self._fill(gauge, values)
            yield gauge
        for name, told, labels, values in _COUNTERS:
            counter = CounterMetricFamily(name, told, labels=("job", *labels))
            self._fill(counter, values)
            yield counter

    def _fill(self, family: GaugeMetricFamily | CounterMetricFamily, values: Values) -> None:
        for job in self._jobs:
            for labels, value in values(job).items():
                if value is not None:
                    family.add_metric((job.job, *labels), value)


def exposition(jobs: Sequence[JobFigures]) -> str:
    """OpenMetrics text, which ends with `# EOF`."""
    text: bytes = generate_latest(_Figures(jobs))  # type: ignore[no-untyped-call]
    return text.decode()


def _alone(value: float | None) -> Mapping[tuple[str, ...], float | None]:
    return {(): value}


def _by(values: Mapping[str, int]) -> Mapping[tuple[str, ...], float | None]:
    return {(name,): number for name, number in values.items()}


_Entry = tuple[str, str, tuple[str, ...], "Values"]

_GAUGES: Iterable[_Entry] = (
    (
        "reconcile_run_delay_seconds",
        "From the scheduled time to the beginning of the newest interval begun.",
        (),
        lambda job: _alone(job.run_delay),
    ),
    (
        "reconcile_backlog_age_seconds",
        "How long the oldest unfinished interval has been owed; 0 where none is.",
        (),
        lambda job: _alone(job.backlog_age),
    ),
    (
        "reconcile_time_to_consistent_seconds",
        "From the scheduled time of the newest completed interval to its proof.",
        (),
        lambda job: _alone(job.consistent),
    ),
    (
        "reconcile_backlog_intervals",
        "Intervals that are due or unfinished: what is left to do.",
        (),
        lambda job: _alone(job.backlog),
    ),
    (
        "reconcile_backfill_remaining_intervals",
        "Intervals of the backfill that runs which are not finished; 0 where none runs.",
        (),
        lambda job: _alone(job.backfill),
    ),
    (
        "reconcile_intervals",
        "Intervals by state, and the reason for it.",
        ("state", "reason"),
        lambda job: job.intervals,
    ),
    (
        "reconcile_alerts",
        "Alerts that stand.",
        ("kind",),
        lambda job: _by(job.alerts),
    ),
    (
        "reconcile_alerts_undelivered",
        "Alerts that could not be delivered yet.",
        (),
        lambda job: _alone(job.undelivered),
    ),
)
_COUNTERS: Iterable[_Entry] = (
    (
        "reconcile_attempts",
        "Runs that were begun.",
        (),
        lambda job: _alone(job.attempts),
    ),
    (
        "reconcile_duplicate_attempts",
        "Triggers turned away while somebody worked, and runs beyond the first of an interval.",
        ("how",),
        lambda job: _by(job.duplicates),
    ),
    (
        "reconcile_lease_losses",
        "Runs that lost their lease.",
        ("how",),
        lambda job: _by(job.lost),
    ),
    (
        "reconcile_changes",
        "Changes made to the target.",
        ("kind",),
        lambda job: _by(job.changes),
    ),
    (
        "reconcile_ranges_saved",
        "Ranges that resumed runs did not do again, because of a checkpoint.",
        (),
        lambda job: _alone(job.ranges_saved),
    ),
    (
        "reconcile_ranges_repeated",
        "Ranges that were under way when a run was killed: at most one each.",
        (),
        lambda job: _alone(job.ranges_repeated),
    ),
)
