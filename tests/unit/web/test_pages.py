"""The pages as HTML: what they say, that foreign text stays text, and that they can be used."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from tftraining.web.curve import curve
from tftraining.web.job_page import Details, job_page, no_job_page
from tftraining.web.jobs import Jobs, read
from tftraining.web.markup import join, tag
from tftraining.web.overview import overview
from tftraining_operator.api.keys import ConditionType, Role
from tftraining_operator.api.status import Failure, Metric, Progress

from tests.unit.builders import NOW, JobBuilder, Raw, a_condition, a_job, a_pod, at, stamp

EVIL = "<script>alert(1)</script><img src=x onerror='alert(2)'>\"'&"
VOID = {"meta", "link"}


class Page(HTMLParser):
    """A page that is read strictly: every element is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "

    def named(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag in tags]


def a_running_job(step: int = 50, total: int | None = 200) -> JobBuilder:
    progress = Progress(
        step=step,
        total_steps=total,
        percent=25,
        percent_text="25%",
        eta_text="30s",
        steps_per_second="5",
        metrics=[Metric(name="loss", value="0.5")],
        loss="0.5",
        updated_at=stamp(),
    )
    conditions = [a_condition(ConditionType.RUNNING), a_condition(ConditionType.PODS_READY)]
    job = a_job().with_status(*conditions, state="Running", progress=progress)
    job.raw["metadata"]["creationTimestamp"] = stamp()
    return job


def a_failed_job(name: str = "broken", message: str = "") -> JobBuilder:
    reason, ends = "PermanentFailure", (ConditionType.FAILED, ConditionType.FINISHED)
    text = f"{name}-chief-0 exited with 64: ValueError: no examples (/task/task.py, line 12)"
    failed = [a_condition(kind, reason=reason, message=text) for kind in ends]
    last = Failure(
        role=Role.CHIEF,
        index=0,
        pod=f"{name}-chief-0",
        reason="ExitCode",
        exit_code=64,
        message=message,
        time=stamp(),
    )
    job = a_job().named(name, uid=f"uid-of-{name}")
    job.with_status(
        *failed, state="Failed", message=text, last_failure=last, completion_time=stamp(5)
    )
    job.raw["metadata"]["creationTimestamp"] = stamp()
    return job


def an_event(message: str, reason: str = "BackOff") -> Raw:
    return {
        "metadata": {"creationTimestamp": stamp()},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": "Pod", "name": "mnist-chief-0"},
    }


def shown(job: JobBuilder, details: Details | None = None, **options: Any) -> Page:
    losses = options.pop("losses", [])
    return Page(job_page(job.raw, details or Details(), losses, at(10), **options))


def test_jobs_are_grouped_by_what_they_do() -> None:
    waiting = (
        a_job()
        .named("waits", uid="uid-2")
        .with_status(state="Unschedulable", message="waits-chief-0: 0/3 nodes are available")
    )
    page = Page(overview([a_failed_job().raw, a_running_job().raw, waiting.raw], at(10)))
    assert "1 training, 1 waiting, 1 ended" in page.text
    assert re.search(r"Training \(1\).*mnist.*Waiting \(1\).*waits.*Ended \(1\).*broken", page.text)
    assert "0/3 nodes are available" in page.text
    assert "ValueError: no examples" in page.text
    (bar,) = page.named("progress")
    assert bar == {"value": "50", "max": "200", "aria-label": "progress of mnist"}
    links = [each["href"] for each in page.named("a")]
    assert {"jobs/default/mnist", "jobs/default/broken", "namespaces/default"} <= set(links)


def test_one_namespace_is_shown_alone() -> None:
    other = a_job().named("other", namespace="vision", uid="uid-2")
    page = Page(overview([a_running_job().raw, other.raw], NOW, namespace="vision"))
    assert "Training jobs in namespace vision" in page.text
    assert "mnist" not in page.text
    assert "../jobs/vision/other" in [each["href"] for each in page.named("a")]


@pytest.mark.parametrize(
    "state", ["Suspended", "Restarting", "Starting", "Failed", "Unschedulable"]
)
def test_a_job_that_does_not_train_has_no_speed_and_no_end(state: str) -> None:
    job = a_running_job()
    job.raw["status"]["state"] = state
    page = shown(job)
    assert "step 50 of 200, 25%, loss 0.5" in page.text
    assert "steps/s" not in page.text
    assert "30s" not in Page(overview([job.raw], at(10))).text
    assert "30s" in Page(overview([a_running_job().raw], at(10))).text


def test_many_jobs_are_cut_and_said_to_be() -> None:
    jobs = [a_job().named(f"job-{at}", uid=f"uid-{at}").raw for at in range(203)]
    page = Page(overview(jobs, NOW))
    assert "Waiting (203)" in page.text
    assert "3 more; tftj list shows all." in page.text


def test_no_jobs_are_said_too() -> None:
    assert "0 training, 0 waiting, 0 ended." in Page(overview([], NOW)).text


def test_a_job_shows_all_that_describe_shows() -> None:
    job = a_running_job()
    built = job.build()
    chief = a_pod(built, Role.CHIEF).running().raw
    worker = a_pod(built, Role.WORKER).waiting("ErrImagePull", "not found").raw
    details = Details([chief, worker], [an_event("the first"), an_event("the second")])
    page = shown(job, details, losses=[(1, 3.0), (50, 0.5)])
    for words in (
        "Running",
        "step 50 of 200, 25%, 5 steps/s, loss 0.5, 30s left",
        "loss 3 at step 1, 0.5 at step 50; lowest 0.5 at step 50",
        "chief 1/1",
        "worker 0/1 not ready: worker-0: ImagePullBackOff",
        "mnist-worker-0",
        "node-1",
        "ParameterServer: chief, worker, ps",
    ):
        assert words in page.text
    assert page.text.index("the second") < page.text.index("the first"), "newest first"
    headings = [each["id"] for each in page.named("h2")]
    assert headings == ["progress", "roles", "pods", "events", "conditions", "details"]


def test_a_failed_job_shows_its_last_failure() -> None:
    page = shown(a_failed_job(message="Traceback:\n  line 12\nValueError: no examples"))
    assert "Failed (PermanentFailure)" in page.text
    assert "Last failure" in page.text
    assert "broken-chief-0 (ExitCode, exit code 64)" in page.text
    assert "Traceback:\n  line 12\nValueError: no examples" in page.text


def test_an_invalid_job_is_shown_with_its_reason() -> None:
    page = shown(a_job().with_role("ps", replicas=0), Details(events=[an_event("x")]))
    assert "InvalidSpec" in page.text
    assert "strategy ParameterServer needs parameter servers" in page.text


def test_what_could_not_be_read_is_said() -> None:
    page = shown(a_running_job(), Details(problem="Pods and events cannot be read: forbidden"))
    assert "cannot be read: forbidden" in page.text
    assert [each["role"] for each in page.named("p") if "role" in each] == [
        "alert",
        "alert",
        "status",
    ]


def of_tenants() -> list[str]:
    """Every page, with a script wherever users of the cluster choose the text."""
    job = a_running_job()
    built = job.build()
    chief = a_pod(built, Role.CHIEF).exited(1, EVIL).raw
    worker = a_pod(built, Role.WORKER).waiting("CrashLoopBackOff", EVIL).raw
    worker["spec"]["nodeName"] = EVIL
    details = Details([chief, worker], [an_event(EVIL, reason=EVIL)], problem=EVIL)
    job.raw["status"]["message"] = EVIL
    job.raw["status"]["state"] = EVIL
    job.raw["status"]["progress"]["metrics"] = [{"name": EVIL[:60], "value": "1"}]
    for condition in job.raw["status"]["conditions"]:
        condition["reason"] = condition["message"] = EVIL
    failed = a_failed_job(message=f"one\n{EVIL}\nthree").raw
    failed["status"]["message"] = EVIL
    # The CRD refuses such names; nothing here relies on it.
    named = a_job().named(EVIL, namespace=EVIL, uid=EVIL).raw
    return [
        overview([job.raw, failed, named], NOW, problem=EVIL),
        overview([named], NOW, namespace=EVIL),
        job_page(job.raw, details, [], NOW),
        job_page(failed, Details(), [], NOW),
        job_page(named, Details(), [], NOW),
        no_job_page(EVIL, EVIL),
    ]


@pytest.mark.parametrize("number", range(6))
def test_text_of_users_is_text(number: int) -> None:
    text = of_tenants()[number]
    page = Page(text)
    (script,) = page.named("script")
    assert str(script["src"]).endswith("static/page.js")
    assert page.named("img") == []
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("href", "src"):
            assert re.fullmatch(r"[\w./%#-]+", attributes.get(name) or "-"), attributes
    assert "alert(1)" in page.text, "it is shown"


@pytest.mark.parametrize("number", range(6))
def test_a_page_loads_nothing_from_elsewhere_and_can_be_used_without_a_mouse(number: int) -> None:
    page = Page(of_tenants()[number])
    assert page.named("html") == [{"lang": "en"}]
    for tag_ in ("header", "main", "h1", "title"):
        assert len(page.named(tag_)) == 1, tag_
    assert all("scope" in each for each in page.named("th"))
    assert all("aria-label" in each or "aria-labelledby" in each for each in page.named("table"))
    assert all(each.get("aria-label") for each in page.named("progress"))
    ids = [each["id"] for _, each in page.elements if each.get("id")]
    assert len(ids) == len(set(ids))
    for each in page.named("section", "table"):
        assert each.get("aria-labelledby", ids[0]) in ids
    first = next(attributes for name, attributes in page.elements if name == "a")
    assert first["href"] == "#content"


def test_a_curve_says_in_words_what_it_draws() -> None:
    page = Page(curve([(0, 4.0), (10, 1.0), (20, 2.0)]) or "")
    (drawing,) = page.named("svg")
    said = "loss 4 at step 0, 2 at step 20; lowest 1 at step 10"
    assert (drawing["role"], drawing["aria-label"]) == ("img", f"Curve of the loss: {said}")
    assert said in page.text
    (line,) = page.named("path")
    assert line["d"] == "M2.0,2.0 L300.0,158.0 L598.0,106.0"


@pytest.mark.parametrize(
    ("points", "lines"),
    [
        pytest.param([], 0, id="none"),
        pytest.param([(1, 2.0)], 0, id="one has no course"),
        pytest.param([(1, 2.0), (2, float("nan"))], 0, id="one and a nan"),
        pytest.param([(1, 2.0), (2, 2.0)], 1, id="no change"),
        pytest.param([(1, 3.0), (2, float("nan")), (3, 2.0), (4, 1.0)], 2, id="a nan is a gap"),
        pytest.param([(1, 3.0), (2, float("inf")), (3, 1e300), (4, 1.0)], 2, id="out of range"),
    ],
)
def test_a_curve_is_drawn_of_numbers(points: list[tuple[int, float]], lines: int) -> None:
    drawn = curve(points) or ""
    assert len(Page(drawn).named("path")) == lines
    assert "nan" not in drawn
    assert "inf" not in drawn


def test_what_is_not_made_by_these_functions_is_escaped() -> None:
    assert tag("p", "<b>", title='"') == '<p title="&quot;">&lt;b&gt;</p>'
    assert tag("p", [tag("b", "x"), "<i>"], hidden="", id=None) == "<p hidden><b>x</b>&lt;i&gt;</p>"
    assert join(["<", tag("meta", charset="utf-8")]) == '&lt;<meta charset="utf-8">'


def test_jobs_are_known_until_they_are_deleted_and_their_losses_with_them() -> None:
    jobs = Jobs()
    first = a_running_job(10).raw
    jobs.replace([read(first, at(10)), read(a_failed_job().raw, at(10))])
    jobs.put(read(a_running_job(20).raw, at(10)))
    assert [raw["metadata"]["name"] for raw in jobs.all()] == ["broken", "mnist"]
    assert jobs.losses(first) == [(10, 0.5), (20, 0.5)]

    again = a_running_job(1).named("mnist", uid="uid-new").raw
    jobs.put(read(again, at(10)))
    assert jobs.losses(again) == [(1, 0.5)]
    assert jobs.losses(first) == []

    jobs.remove(again)
    assert jobs.find("default", "mnist") is None
    jobs.replace([])
    assert jobs.all() == []
    assert jobs.losses(a_failed_job().raw) == []
