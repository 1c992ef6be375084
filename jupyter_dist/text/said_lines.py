"""The lines of what a program has said."""


def last_lines(text: str, count: int = 12) -> str:
    """Return the last lines that have something in them."""
    return "\n".join([line for line in lines_of(text) if line.strip()][-count:])


def lines_of(text: str) -> list[str]:
    """Return the lines without their ends."""
    # ssh ends its lines as terminals in raw mode need it.
    return [line.rstrip() for line in text.replace("\r", "").splitlines()]
