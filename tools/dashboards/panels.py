"""What the dashboards show: each panel is a title, a unit and its queries.

tests/unit/test_monitoring.py checks that the queries name metrics that exist, and that every metric
has a panel.
"""

from tools.dashboards.grafana import Dashboard, Panel, Query


def _quantile(name: str, by: str, selector: str = "") -> str:
    rate = f"rate({name}_bucket{selector}[$__rate_interval])"
    return f"histogram_quantile(0.95, sum by (le, {by}) ({rate}))"


_OPERATOR = "tftraining_operator"
_JOBS = '{namespace=~"$namespace"}'
# What every process of the Prometheus client has, of the operator's pods only.
_OF_OPERATOR = f"and on (namespace, pod) {_OPERATOR}_leader"
_TRAINING = '{namespace="$namespace", training_job="$training_job"}'

OPERATOR = Dashboard(
    "operator",
    "TFTraining operator",
    (
        Panel("Leader", "short", [Query(f"{_OPERATOR}_leader", "{{pod}}")]),
        Panel(
            "Shards that each replica leads for; 1 without shards",
            "short",
            [
                Query(
                    f"sum by (pod) ({_OPERATOR}_shard_held) or max by (pod) ({_OPERATOR}_leader)",
                    "{{pod}}",
                ),
            ],
        ),
        Panel(
            "Namespaces by who works on their jobs",
            "short",
            # With shards each replica counts the same namespaces.
            [
                Query(
                    f"sum by (claim) (max by (namespace, claim) ({_OPERATOR}_namespaces))",
                    "{{claim}}",
                ),
            ],
        ),
        Panel(
            "Version",
            "short",
            [
                Query(
                    f"sum by (version, python) ({_OPERATOR}_build_info)", "{{version}}, {{python}}"
                )
            ],
        ),
        Panel(
            "Jobs by state",
            "short",
            [Query(f"sum by (state) (tftraining_jobs{_JOBS})", "{{state}}")],
        ),
        Panel(
            "Jobs that should train and do not",
            "short",
            [Query("sum by (reason) (tftraining_jobs_waiting)", "{{reason}}")],
        ),
        Panel(
            "Which jobs wait, and for how long",
            "s",
            [
                Query(
                    "sort_desc(max by (namespace, training_job, reason) "
                    f"(tftraining_job_waiting_seconds{_JOBS}))"
                )
            ],
            kind="table",
        ),
        Panel(
            "Restarts by reason, in an hour",
            "short",
            [
                Query(
                    f"sum by (reason) (increase(tftraining_job_restarts_total{_JOBS}[1h]))",
                    "{{reason}}",
                )
            ],
        ),
        Panel(
            "Finished jobs by reason, in an hour",
            "short",
            [
                Query(
                    "sum by (result, reason) "
                    f"(increase(tftraining_jobs_finished_total{_JOBS}[1h]))",
                    "{{result}}: {{reason}}",
                )
            ],
        ),
        Panel(
            "Stages of a job, 95th percentile",
            "s",
            [
                Query(
                    "histogram_quantile(0.95, sum by (le, stage) "
                    "(increase(tftraining_job_stage_duration_seconds_bucket[6h])))",
                    "{{stage}}",
                )
            ],
        ),
        Panel(
            "Duration of jobs, median",
            "s",
            [
                Query(
                    "histogram_quantile(0.5, sum by (le, result) "
                    "(increase(tftraining_job_duration_seconds_bucket[6h])))",
                    "{{result}}",
                )
            ],
        ),
        Panel(
            "Queue",
            "short",
            [
                Query(f"max by (pod) ({_OPERATOR}_workqueue_depth)", "waiting, {{pod}}"),
                Query(f"max by (pod) ({_OPERATOR}_workqueue_retrying)", "retrying, {{pod}}"),
            ],
        ),
        Panel(
            "Age of the oldest key",
            "s",
            [Query(f"max by (pod) ({_OPERATOR}_workqueue_oldest_key_age_seconds)", "{{pod}}")],
        ),
        Panel(
            "Passes, 95th percentile",
            "s",
            [Query(_quantile(f"{_OPERATOR}_reconcile_duration_seconds", "result"), "{{result}}")],
        ),
        Panel(
            "Requests to the API server",
            "reqps",
            [
                Query(
                    "sum by (verb, resource, code) "
                    f"(rate({_OPERATOR}_api_requests_total[$__rate_interval]))",
                    "{{verb}} {{resource}} {{code}}",
                )
            ],
        ),
        Panel(
            "Requests to the API server, 95th percentile",
            "s",
            [
                Query(
                    _quantile(f"{_OPERATOR}_api_request_duration_seconds", "verb, resource"),
                    "{{verb}} {{resource}}",
                )
            ],
        ),
        Panel(
            "Watch events",
            "ops",
            [
                Query(
                    "sum by (resource, type) "
                    f"(rate({_OPERATOR}_watch_events_total[$__rate_interval]))",
                    "{{resource}} {{type}}",
                )
            ],
        ),
        Panel(
            "Progress polls by result",
            "reqps",
            [
                Query(
                    f"sum by (result) (rate({_OPERATOR}_progress_polls_total[$__rate_interval]))",
                    "{{result}}",
                ),
                Query(f"sum({_OPERATOR}_progress_targets)", "pods that are asked"),
            ],
        ),
        Panel(
            "Age of the oldest report",
            "s",
            [Query(f"max({_OPERATOR}_progress_oldest_report_age_seconds)", "oldest")],
        ),
        Panel(
            "Lag of the event loop, 95th percentile",
            "s",
            [Query(_quantile(f"{_OPERATOR}_event_loop_lag_seconds", "pod"), "{{pod}}")],
        ),
        Panel(
            "Processors in use, of 1",
            "short",
            [Query(f"rate(process_cpu_seconds_total[$__rate_interval]) {_OF_OPERATOR}", "{{pod}}")],
        ),
        Panel(
            "Memory",
            "bytes",
            [Query(f"process_resident_memory_bytes {_OF_OPERATOR}", "{{pod}}")],
        ),
        Panel(
            "Open files and connections, of those allowed",
            "percentunit",
            [Query(f"process_open_fds / process_max_fds {_OF_OPERATOR}", "{{pod}}")],
        ),
        Panel(
            "Age of the process",
            "s",
            [Query(f"time() - process_start_time_seconds {_OF_OPERATOR}", "{{pod}}")],
        ),
    ),
    (("namespace", "label_values(tftraining_jobs, namespace)"),),
    several=True,
)

JOB = Dashboard(
    "job",
    "TFTraining job",
    (
        Panel(
            "Steps",
            "short",
            [
                Query(f"max(tftraining_step{_TRAINING})", "completed"),
                Query(f"max(tftraining_total_steps{_TRAINING})", "in all"),
                Query(f"max(tftraining_checkpoint_step{_TRAINING})", "newest checkpoint"),
            ],
        ),
        Panel(
            "Metrics of the model",
            "short",
            [Query(f"max by (role, name) (tftraining_metric{_TRAINING})", "{{role}}: {{name}}")],
        ),
        Panel(
            "Phase",
            "short",
            [
                Query(
                    f"max by (role, phase) (tftraining_phase{_TRAINING}) > 0", "{{role}}: {{phase}}"
                ),
                Query(f"max(tftraining_attempt{_TRAINING})", "attempt"),
            ],
        ),
        Panel(
            "Steps per second",
            "ops",
            [Query(f"max(tftraining_steps_per_second{_TRAINING})", "steps/s")],
        ),
        Panel(
            "Examples per second",
            "ops",
            [
                Query(f"max(tftraining_examples_per_second{_TRAINING})", "recent"),
                Query(
                    f"sum(rate(tftraining_examples_total{_TRAINING}[$__rate_interval]))", "counted"
                ),
            ],
        ),
        Panel(
            "Examples per second of each worker",
            "ops",
            [
                Query(
                    f"max by (task) (tftraining_worker_examples_per_second{_TRAINING})", "{{task}}"
                )
            ],
        ),
        Panel(
            "Input wait of each worker",
            "percentunit",
            [Query(f"max by (task) (tftraining_worker_input_wait_ratio{_TRAINING})", "{{task}}")],
        ),
        Panel(
            "Scheduled functions",
            "short",
            [Query(f"max(tftraining_queue_depth{_TRAINING})", "not begun")],
        ),
        Panel(
            "Examples trained on once more, as workers were lost",
            "short",
            [Query(f"max(tftraining_repeated_examples{_TRAINING})", "repeated")],
        ),
        Panel(
            "Tasks that are missing",
            "short",
            [
                Query(f"max(tftraining_waiting_for_tasks{_TRAINING})", "waited for at the start"),
                Query(f"max(tftraining_unreachable_tasks{_TRAINING})", "unreachable"),
            ],
        ),
    ),
    (
        ("namespace", "label_values(tftraining_step, namespace)"),
        ("training_job", 'label_values(tftraining_step{namespace="$namespace"}, training_job)'),
    ),
)

DASHBOARDS = (OPERATOR, JOB)
