"""What the long runs on a cluster print: each step with its time."""

from datetime import UTC, datetime

from rich.console import Console
from rich.markup import escape

console = Console(highlight=False)


def say(line: str) -> None:
    """Print one step."""
    console.print(f"[dim]{datetime.now(UTC):%H:%M:%S}[/] {escape(line)}", soft_wrap=True)
