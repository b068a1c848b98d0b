"""The parts of pages that scripts write, between two markers."""

from __future__ import annotations


def replace_section(text: str, label: str, content: str) -> str:
    """Return a text with this content between the two markers of that label: the script, and what it writes there."""
    begin, end = (f"<!-- {word}: {label} -->\n" for word in ("begin", "end"))
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    if (times := text.count(begin)) != 1 or rest.count(end) != 1:
        raise SystemExit(f"the text should hold the two markers once; it holds them {times} times:\n{begin}{end}")
    return f"{head}{begin}{content}{end}{tail}"
