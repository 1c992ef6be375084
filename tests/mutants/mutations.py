"""Small changes to a module, one at a time, that its tests should notice."""

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

COMPARISONS = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
CODE = re.compile(r"[A-Za-z0-9_.:%/-]+")
"""Strings that a program reads; sentences are the golden catalogue's, and so are their verbs."""
HELP = ("help", "metavar")
"""Arguments of argparse that are words too."""
GRAMMAR = {"is", "are", "has", "have", "it", "them"}
LEFT_ALONE = ("annotation", "returns", "decorator_list", "args", "type_params")
"""Of a function. Defaults belong to the module, which is not run again."""


@dataclass(frozen=True)
class Mutant:
    """One change, and the code of the whole module with it."""

    line: int
    before: str
    after: str
    code: CodeType


def mutants_of(source: str, filename: str) -> Iterator[Mutant]:
    """Yield each change to the body of a function."""
    tree = ast.parse(source)
    for parent, name, index, node in list(_places(tree, within=False)):
        for changed in _changes(node):
            _put(parent, name, index, changed)
            code = compile(ast.fix_missing_locations(tree), filename, "exec")
            _put(parent, name, index, node)
            line = node.target.lineno if isinstance(node, ast.comprehension) else node.lineno
            yield Mutant(line, _first_line(node), _first_line(changed), code)


def _places(node: ast.AST, *, within: bool) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield what stands in functions: its parent, field, place in the field's list, itself."""
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for name, value in ast.iter_fields(node):
        if name == "annotation" or (is_function and name in LEFT_ALONE):
            continue
        if isinstance(node, ast.JoinedStr | ast.FormattedValue) and name == "format_spec":
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Assert):
                continue
            if _is_text(node, child) or (isinstance(child, ast.keyword) and child.arg in HELP):
                continue
            if within or is_function:
                yield node, name, index, child
            yield from _places(child, within=within or is_function)


def _is_text(parent: ast.AST, child: ast.AST) -> bool:
    """Tell docstrings, and the words between the values of an f-string."""
    is_string = isinstance(child, ast.Constant) and isinstance(child.value, str)
    return is_string and isinstance(parent, ast.Expr | ast.JoinedStr)


def _put(parent: ast.AST, name: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, name, node)
    else:
        getattr(parent, name)[index] = node


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).strip().splitlines()[0]


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    yield from _other_operators(node)
    match node:
        case ast.Constant():
            for value in _other_values(node.value):
                yield _with(node, value=value)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield _with(node, value=ast.copy_location(ast.Constant(None), value))
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
                negated = ast.copy_location(ast.UnaryOp(ast.Not(), test), test)
                yield _with(node, test=negated)
        case ast.comprehension():
            for place, _ in enumerate(node.ifs):
                yield _with(node, ifs=[*node.ifs[:place], *node.ifs[place + 1 :]])
        case ast.Break():
            yield ast.copy_location(ast.Continue(), node)
        case ast.Continue():
            yield ast.copy_location(ast.Break(), node)


def _other_operators(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                for other in COMPARISONS[type(operator)]:
                    ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
                    yield _with(node, ops=ops)
        case ast.BoolOp():
            yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.BinOp() | ast.AugAssign() if type(node.op) in ARITHMETIC:
            yield _with(node, op=ARITHMETIC[type(node.op)]())
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand


def _other_values(value: object) -> Iterator[object]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield value + 1
    elif isinstance(value, str) and CODE.fullmatch(value) and value not in GRAMMAR:
        yield value + "X"


def _with(node: ast.AST, **changes: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed
