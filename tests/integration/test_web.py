"""`tftj web` in headless Chromium, against a real API server and the real operator."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tftraining.web.document import document
from tftraining.web.markup import tag

from tests.conftest import ROOT
from tests.integration.jobs import Namespace, manifest
from tests.integration.test_cluster_commands import environment
from tools.browser import NoBrowserError, Page, browsing, program
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

# The first run on a machine downloads Chromium.
pytestmark = pytest.mark.timeout(240)

ASSETS = ROOT / "operator/tftraining/web/static"
EVIL = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/task/task.py", line 12, in dataset\n'
    f"ValueError: {EVIL}\n"
)

CONTRASTS = """
(() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const linear = (v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    const [r, g, b] = parts(colour).map((v) => linear(v / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (parts(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const ink = element.namespaceURI.endsWith("svg") ? style.fill : style.color;
    const [a, b] = [light(ink), light(ground(element))].sort((x, y) => y - x);
    found.push([(a + .05) / (b + .05), texts.currentNode.data.trim().slice(0, 40)]);
  }
  return found.sort((x, y) => x[0] - y[0])[0];
})()
"""
"""The least contrast of a text to what it stands on, and the text."""

FOCUS_IS_SEEN = """
(() => {
  const style = getComputedStyle(document.activeElement);
  return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
})()
"""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """A tab of headless Chromium."""
    try:
        with browsing(program()) as tab:
            yield tab
    except NoBrowserError as error:
        pytest.skip(f"headless Chromium is not available: {error}")


@contextmanager
def served(space: Namespace) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `tftj web`; give its address and the process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tftraining.cli", "web", f"--namespace={space.name}"],
        env=environment(space) | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
    finally:
        process.terminate()
        _, said = process.communicate(timeout=20)
        assert "Traceback" not in said
        assert process.returncode == 0


def report(space: Namespace, step: int, loss: str, name: str = "mnist") -> None:
    """Write progress into a job, as the operator does when the chief reports."""
    now = space.job(name)["status"]["startTime"]
    progress: dict[str, Any] = {"step": step, "totalSteps": 200, "percent": step // 2}
    progress |= {"percentText": f"{step // 2}%", "updatedAt": now, "loss": loss}
    progress["metrics"] = [{"name": "loss", "value": loss}]
    space.patch_status(name, {"progress": progress})


def started(space: Namespace, name: str, **spec: Any) -> list[str]:
    """Submit a job; return the names of its pods."""
    space.apply(manifest(name, worker={"replicas": 1}, **spec))
    pods = [f"{name}-{role}-0" for role in ("ps", "worker", "chief")]
    eventually(lambda: set(pods) <= set(space.pods()), f"the pods of {name}")
    return pods


@pytest.fixture
def jobs(space: Namespace) -> Namespace:
    """A job that trains, one that waits and one that has failed."""
    space.run(*started(space, "mnist"))
    space.wait_for("PodsReady")
    waiting = started(space, "waits")
    message = f"0/3 nodes are available: 3 Insufficient cpu. {EVIL}"
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    for pod in waiting:
        space.set_pod(pod, phase="Pending", conditions=[unschedulable | {"message": message}])
    failed = started(space, "broken")
    space.run(*failed)
    space.wait_for("PodsReady", name="broken")
    space.end("broken-chief-0", 64, TRACEBACK)
    space.wait_for("Finished", name="broken")
    eventually(lambda: space.status("waits").get("state") == "Unschedulable", "it waits")
    report(space, 20, "2.5")
    return space


def test_a_person_sees_what_trains_what_waits_and_why(jobs: Namespace, page: Page) -> None:
    with served(jobs) as (url, process):
        page.problems.clear()
        page.look(1280)
        page.open(url)
        page.wait_for("document.querySelectorAll('tbody th').length === 3")
        page.wait_for("document.getElementById('live')?.textContent.startsWith('Live')")
        it_is_told_to_screen_readers(page)
        it_is_used_by_keyboard(page)
        it_is_live(page, jobs)
        it_fits(page, url, jobs)
        assert page.evaluate("window.pwned") is None
        assert page.evaluate("document.cookie") == ""
        assert page.problems == [], "nothing is blocked, missing or broken"
        process.terminate()
        page.wait_for("!document.getElementById('offline').hidden")
        assert "No answer from the server" in page.evaluate("document.body.innerText")


def it_is_told_to_screen_readers(page: Page) -> None:
    """See landmarks, headings, and tables with names and headers in the accessibility tree."""
    found = page.accessible()
    for each in (
        ("banner", ""),
        ("main", ""),
        ("heading", "Training (1)"),
        ("heading", "Waiting (1)"),
        ("heading", "Ended (1)"),
        ("table", "Training (1)"),
        ("columnheader", "State"),
        ("progressbar", "progress of mnist"),
        ("link", "broken"),
    ):
        assert each in found, found
    assert [name for role, name in found if role == "rowheader"]
    assert found[0][0] == "RootWebArea"


def it_is_used_by_keyboard(page: Page) -> None:
    """Skip to the content and open a job without a mouse; what has the focus is seen."""
    page.press("Tab", 9)
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left >= 0")
    page.press("Enter", 13, "\r")
    page.wait_for("document.activeElement.id === 'content'")
    page.press("Tab", 9)
    assert page.evaluate("document.activeElement.textContent") == "mnist"
    assert page.evaluate(FOCUS_IS_SEEN)
    page.press("Enter", 13, "\r")
    page.wait_for("document.querySelector('h1')?.textContent === 'mnist'")
    page.wait_for("document.title.startsWith('mnist: Running')")


def it_is_live(page: Page, space: Namespace) -> None:
    """Follow a job to its end without loading the page again, and keep what has the focus."""
    page.evaluate("window.loaded = 'once'; document.querySelector('.wide').focus()")
    for step, loss in ((60, "1.5"), (120, "0.7")):
        report(space, step, loss)
        page.wait_for(f"document.querySelector('main progress')?.value === {step}")
    image = "Curve of the loss: loss 2.5 at step 20, 0.7 at step 120; lowest 0.7 at step 120"
    assert ("image", image) in page.accessible()
    assert page.evaluate("document.activeElement.className") == "wide"
    assert page.evaluate("document.getElementById('said').textContent") == ""
    space.end("mnist-chief-0", 0)
    page.wait_for("document.getElementById('said').textContent.includes('mnist: Succeeded')")
    assert page.evaluate("window.loaded") == "once"


def it_fits(page: Page, url: str, space: Namespace) -> None:
    """See each page on a phone and a desktop, light and dark, readable and not cut off."""
    grounds = set()
    for path in ("", f"jobs/{space.name}/broken", f"jobs/{space.name}/waits"):
        page.open(url + path)
        for width in (390, 1280):
            for dark in (False, True):
                page.look(width, dark=dark)
                shown = (path, width, dark)
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), shown
                contrast, text = page.evaluate(CONTRASTS)
                assert contrast >= 4.5, (text, *shown)
                ground = "getComputedStyle(document.documentElement).backgroundColor"
                grounds.add((dark, page.evaluate(ground)))
        if path:
            assert EVIL in page.evaluate("document.body.innerText")
    assert len(grounds) == 2


def test_without_a_browsers_script_it_is_a_page_too(jobs: Namespace, page: Page) -> None:
    with served(jobs) as (url, _):
        page.call("Emulation.setScriptExecutionDisabled", value=True)
        try:
            page.call("Page.navigate", url=url)
            eventually(
                lambda: ("heading", "Waiting (1)") in page.accessible(), "the jobs are there"
            )
        finally:
            page.call("Emulation.setScriptExecutionDisabled", value=False)


@contextmanager
def saying(answers: dict[str, Any]) -> Iterator[str]:
    """Serve a page whose answer the test changes, as a proxy before it would; give its address.

    Of `answers` there are `status`, `text`, and the event `goes_on`, without which none comes.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            static = ASSETS / self.path.rpartition("/")[2]
            if self.path.startswith("/static/"):
                self.answer(200, static.read_bytes(), "text/javascript")
                return
            answers["goes_on"].wait()
            self.answer(answers["status"], answers["text"].encode(), "text/html")

        def answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            answers["goes_on"].set()
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "text", "told"),
    [
        pytest.param(200, "<main id=content>Log in</main>", "of another page", id="a login"),
        pytest.param(404, "<p>not found</p>", "of another page", id="an address that is gone"),
        pytest.param(502, "<p>bad gateway</p>", "No answer from the server", id="no server"),
        pytest.param(None, "", "No answer from the server", id="no answer"),
    ],
)
def test_what_is_not_its_own_page_is_not_taken_for_news(
    page: Page, status: int | None, text: str, told: str
) -> None:
    ours = document("jobs", tag("h1", "Training jobs"), up="")
    answers: dict[str, Any] = {"status": 200, "text": ours, "goes_on": threading.Event()}
    answers["goes_on"].set()
    with saying(answers) as url:
        page.open(url)
        page.wait_for("document.getElementById('live').textContent.startsWith('Live')")
        if status is None:
            answers["goes_on"].clear()
        answers |= {"status": status or 200, "text": text}
        page.wait_for("document.getElementById('live').textContent === 'Not connected'")
        assert told in page.evaluate("document.getElementById('offline').innerText")
        assert page.evaluate("document.querySelector('h1').innerText") == "Training jobs"
        answers |= {"status": 200, "text": ours}
        answers["goes_on"].set()
        page.wait_for("document.getElementById('live').textContent.startsWith('Live')")
        assert page.evaluate("document.getElementById('offline').hidden")


def test_without_a_cluster_nothing_is_served(space: Namespace) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tftraining.cli", "web", "--context=absent"],
        env=environment(space),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "no context absent in the kubeconfig" in done.stderr
