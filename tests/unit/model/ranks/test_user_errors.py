import pytest

from jupyter_dist.model.ranks.user_errors import error_text, name_error, type_name


class Meta(type):
    @property
    def __name__(cls):
        raise SystemExit


class Odd(BaseException, metaclass=Meta):
    def __str__(self):
        raise KeyboardInterrupt


class Text(str):
    def __str__(self):
        raise SystemExit


class Speaks(Exception):
    def __str__(self):
        return Text("words")


@pytest.mark.parametrize(
    ("error", "text", "name"),
    [
        (ValueError("boom"), "boom", "ValueError: boom"),
        (SystemExit(), "", "SystemExit"),
        (Speaks(), "words", "Speaks: words"),
        (
            Odd(),
            "<Odd, whose str raised KeyboardInterrupt>",
            "Odd: <Odd, whose str raised KeyboardInterrupt>",
        ),
    ],
)
def test_any_error_has_words(error, text, name):
    assert error_text(error) == text
    assert type(error_text(error)) is str
    assert name_error(error) == name


def test_a_type_has_a_name_whatever_its_class_says():
    assert type_name(Odd()) == "Odd"
