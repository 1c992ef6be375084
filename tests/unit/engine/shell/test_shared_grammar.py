import pytest
from pygments.lexer import RegexLexerMeta
from pygments.lexers import PythonLexer
from pygments.token import Comment, Name

from jupyter_dist.engine.shell.shared_grammar import share_compiled_grammar

CODE = "def f(x):\n    return x  # twice\n"


@pytest.fixture
def compiled(monkeypatch):
    """The classes whose grammar is compiled from now on, which is shared until the test ends."""
    compiled = []
    compile_it = RegexLexerMeta.process_tokendef

    def watch(cls, *args):
        compiled.append(cls)
        return compile_it(cls, *args)

    share_compiled_grammar()
    monkeypatch.setattr(RegexLexerMeta, "process_tokendef", watch)
    yield compiled
    if "__init_subclass__" in vars(PythonLexer):
        del PythonLexer.__init_subclass__


def test_a_class_with_pythons_grammar_uses_what_is_compiled(compiled):
    class Marks(PythonLexer):
        def get_tokens(self, text):
            return ((kind, text.upper()) for kind, text in super().get_tokens(text))

    expected = [(kind, text.upper()) for kind, text in PythonLexer().get_tokens(CODE)]
    assert list(Marks().get_tokens(CODE)) == expected
    assert compiled == []


def test_a_class_with_another_grammar_is_compiled_on_its_own(compiled):
    class Odd(PythonLexer):
        tokens = {"root": [("#.*", Comment), (r"\w+", Name)]}  # noqa: RUF012

    class Odder(Odd):
        pass

    class AllLines(PythonLexer):
        flags = 0

    for lexer in (Odd, Odder, AllLines):
        assert ("#", Comment) not in list(lexer().get_tokens("# a b"))
    assert compiled == [Odd, Odder, AllLines]


def test_it_is_shared_once(compiled):
    shared = vars(PythonLexer)["__init_subclass__"]
    share_compiled_grammar()
    assert vars(PythonLexer)["__init_subclass__"] is shared
    assert compiled == []
