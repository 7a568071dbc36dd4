"""A picture of the notebook of the docs, executed against the cluster."""

import json
import tempfile
from html import escape
from pathlib import Path
from typing import Any

import markdown
import nbformat
import yaml
from nbclient import NotebookClient
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from e2e.install import ROOT
from e2e.jobs import claim
from e2e.scenarios.space import Space
from tools.browser import Page

_NOTEBOOK = ROOT / "docs/guide/client.ipynb"
_PICTURE = ROOT / "docs/guide/pictures/notebook.png"
_SECONDS = 300
_STYLE = """
body { margin: 0; padding: 16px 24px; width: 900px; font: 15px/1.5 'DejaVu Sans', sans-serif;
       background: #fff; color: #1f2328 }
.cell { display: grid; grid-template-columns: 64px 1fr; gap: 8px; margin: 8px 0 }
.count { font: 12px/1.9 'DejaVu Sans Mono', monospace; color: #616161; text-align: right }
.code { background: #f5f5f5; border: 1px solid #e0e0e0; padding: 6px 10px }
pre { margin: 0; font: 13px/1.45 'DejaVu Sans Mono', monospace; white-space: pre-wrap }
p { margin: 4px 0 }
"""


def picture(tab: Page, space: Space) -> Path:
    """Run the notebook and take it; return the file."""
    space.apply(claim("sums"))
    with tempfile.TemporaryDirectory() as folder:
        notebook = _run(space, Path(folder))
        file = Path(folder) / "notebook.html"
        file.write_text(html(notebook))
        tab.look(960)
        tab.open(file.as_uri())
        tab.picture(_PICTURE, most=1700)
    return _PICTURE


def _run(space: Space, folder: Path) -> Any:  # noqa: ANN401 - nbformat has no types
    config = yaml.safe_load(space.cluster.kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = space.name
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    kubeconfig.chmod(0o600)
    notebook = nbformat.read(_NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=_SECONDS, resources={"metadata": {"path": folder}})
    client.execute(env=space.environment() | {"KUBECONFIG": str(kubeconfig)})
    return notebook


def html(notebook: Any) -> str:  # noqa: ANN401 - as above
    """Return an executed notebook as a page that looks like one."""
    cells = "".join(_cell(cell) for cell in notebook.cells)
    return f'<!doctype html><meta charset="utf-8"><style>{_STYLE}</style><body>{cells}'


def _cell(cell: Any) -> str:  # noqa: ANN401 - as above
    if cell.cell_type != "code":
        return _row("", markdown.markdown(cell.source))
    code = highlight(cell.source, PythonLexer(), HtmlFormatter(noclasses=True, nobackground=True))
    rows = [_row(f"[{cell.execution_count}]:", code, "code")]
    rows += [_row("", shown) for output in cell.outputs if (shown := _output(output))]
    return "".join(rows)


def _output(output: Any) -> str:  # noqa: ANN401 - as above
    data = output.get("data", {})
    if "text/html" in data:
        return str(data["text/html"])
    text = data.get("text/plain") or output.get("text", "")
    return f"<pre>{escape(text.rstrip())}</pre>" if text else ""


def _row(count: str, content: str, kind: str = "") -> str:
    shown = f'<div class="count">{count}</div><div class="{kind}">{content}</div>'
    return f'<div class="cell">{shown}</div>'
