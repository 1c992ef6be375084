"""Tracebacks in colour without compiling Python's grammar for each of them.

stack_data makes a class of lexers for each frame that it colours, and pygments compiles the grammar
for each class: a third of what a traceback takes.
"""

from importlib import import_module
from typing import Any, cast

_COMPILED = ("_all_tokens", "_tokens", "_tmpname")
"""What pygments keeps of it with a class."""


def share_compiled_grammar() -> None:
    """Have lexers that derive from Python's, and have its grammar, use what is compiled for it."""
    lexer: Any = import_module("pygments.lexers.python").PythonLexer
    if "__init_subclass__" in vars(lexer):
        return
    lexer()  # which compiles it

    def share(cls: Any, **options: Any) -> None:
        super(lexer, cls).__init_subclass__(**options)
        if cls.tokens is lexer.tokens and cls.flags == lexer.flags:
            for name in _COMPILED:
                setattr(cls, name, vars(lexer)[name])

    if all(name in vars(lexer) for name in _COMPILED):
        lexer.__init_subclass__ = classmethod(cast("Any", share))
