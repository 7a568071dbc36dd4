"""What an on-call engineer asks first, and the queries that answer it; used by runbook."""

from collections.abc import Sequence
from dataclasses import dataclass

FAILED_REQUESTS = (
    "sum by (verb, resource, code) "
    '(rate(tftraining_operator_api_requests_total{code!~"2..",code!~"40[349]"}[5m]))'
)
SLOW_REQUESTS = (
    "histogram_quantile(0.95, sum by (le) "
    "(rate(tftraining_operator_api_request_duration_seconds_bucket[5m])))"
)

HURTING = "sort_desc(max by (namespace, training_job, reason) (tftraining_job_waiting_seconds))"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked first, the queries that answer it, and how to read their answers."""

    text: str
    queries: Sequence[str]
    reading: str


QUESTIONS = (
    Question(
        "Which job hurts, since when, and why?",
        (HURTING,),
        "The seconds for which each job has been waiting. Each reason but `Rejected` has an alert "
        "below: a rejected job is its owner's affair.",
    ),
    Question(
        "One job, or many?",
        ("sum by (reason) (tftraining_jobs_waiting)",),
        "The jobs that have been waiting for more than a minute.",
    ),
    Question(
        "Is there a leader, and for how long the same?",
        (
            "max by (pod) (tftraining_operator_leader)",
            # Changes of the metric would miss a new pod that leads before it is scraped.
            "count(max_over_time(tftraining_operator_leader[1h]) == 1)",
        ),
        "The leader has 1. The second query counts the pods that led within an hour: "
        "of more than one, the last took over from another.",
    ),
    Question(
        "Is it us?",
        (
            "max by (pod) (tftraining_operator_workqueue_oldest_key_age_seconds)",
            "sum by (result) (rate(tftraining_operator_reconcile_duration_seconds_count[5m]))",
        ),
        "Yes, if a job has been waiting for its pass for more than a few seconds while requests "
        "to the API server are fast, or if passes end with `error`. `api_error` is the API server.",
    ),
    Question(
        "Is it the API server?",
        (FAILED_REQUESTS, SLOW_REQUESTS),
        "Requests a second that were refused or (`error`) not answered, and the duration in "
        "seconds that 95 % of all requests stay below.",
    ),
    Question(
        "What did it cost?",
        ("sum by (namespace, reason) (increase(tftraining_job_restarts_total[6h])) > 0",),
        "Restarts within 6 hours; each loses the steps since the newest checkpoint. Prometheus "
        "extrapolates, so the numbers are not whole.",
    ),
)
