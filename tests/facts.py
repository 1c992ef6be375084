"""What tests read in sentences: names, numbers and a word or two, but not how they are put."""

import re


def assert_tells(text: str, *facts: str) -> None:
    """One line of the text has all these facts, in this order."""
    pattern = ".*".join(map(re.escape, facts))
    assert re.search(pattern, text), f"no line has {facts}, in this order: {text!r}"
