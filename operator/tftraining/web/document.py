"""What all pages have in common: the document around their content, and how a state looks. Pure."""

from tftraining.view.table import colour
from tftraining.web.markup import Content, Markup, join, tag


def document(title: str, content: Content, *, up: str, problem: str = "") -> str:
    """Return a whole page.

    `up` leads from its address to that of the overview, such as ../../; all links are relative, so
    that a proxy may serve the pages below any path. `problem` is why what is shown may be old.
    """
    head = tag(
        "head",
        (
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", f"{title} · TFTrainingJobs"),
            tag("link", rel="icon", href=f"{up}static/icon.svg"),
            tag("link", rel="stylesheet", href=f"{up}static/page.css"),
            tag("script", src=f"{up}static/page.js", defer=""),
            tag("noscript", tag("meta", http_equiv="refresh", content="10")),
        ),
    )
    name = tag("a", "TFTrainingJobs", href=up or "./")
    said = tag("p", problem, class_="problem", role="alert") if problem else ""
    body = tag(
        "body",
        (
            tag("a", "Skip to the content", class_="skip", href="#content"),
            tag("header", (tag("p", name), tag("p", "", id="live"))),
            tag("p", "", id="offline", class_="problem", role="alert", hidden=""),
            tag(
                "main",
                (said, join([content] if isinstance(content, str) else content)),
                id="content",
                tabindex="-1",
            ),
            tag("p", "", id="said", class_="unseen", role="status"),
        ),
    )
    return "<!doctype html>\n" + tag("html", (head, body), lang="en")


def state(word: str, job: str) -> Markup:
    """Return a state as a word; its colour only repeats it. `job` tells the script whose it is."""
    shade = colour(word.partition(" ")[0])
    return tag("strong", word, class_=f"state {shade}", data_job=job, data_state=word)


def bar(step: int, total: int | None, label: str) -> Markup:
    """Return a bar of the steps done; nothing if their number is not known."""
    if not total:
        return Markup("")
    return tag("progress", value=min(step, total), max=total, aria_label=label)
