"""Stubs: activities whose body is literally `...`, which another worker or team serves.

Compiled, `...` is the same as `pass` and as `return None`, which are activities that really do nothing, so the source
decides. Where there is none, a function is no stub.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import CodeType

CODE_BYTES_MAX = 64  # of a body that does nothing; whatever is longer needs no look at its source


def is_stub(fn: object) -> bool:
    """Whether the body of this function is `...`, perhaps after a docstring."""
    code = getattr(fn, "__code__", None)
    if not isinstance(code, CodeType) or code.co_names or len(code.co_code) > CODE_BYTES_MAX:
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return False
    function = tree.body[0] if tree.body else None
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    return len(body) == 1 and _is_ellipsis(body[0])


def _is_ellipsis(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value is Ellipsis
    )
