"""The reference page: the public names, options, settings, commands and errors, from signatures and docstrings.

    python -m tests.reference > docs/reference.md

It reads the source instead of asking `inspect`, so that every Python makes the same page.
"""

import argparse
import ast
import inspect
import textwrap
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import tenure
from tenure.domain import errors
from tenure.engine.options import CALL_OPTIONS, JOB_OPTIONS, JobOptions, Options
from tenure.engine.queue import QueueOptions
from tenure.engine.settings import PREFIX, Settings
from tenure.service.cli.main import COMMANDS, parser

OPENING = """# Reference

Made from the code's signatures and docstrings by `make docs`; a test keeps it fresh. Explanations are in the
[guide](guide.md), the contract in [semantics.md](semantics.md). Durations are seconds, or a `timedelta`.

Every name is imported from `tenure`. What is a coroutine here has a form for plain functions under `app.sync`,
`job.sync` and `handle.sync`.
"""

INTERNAL = {
    *("joined", "check_codecs", "new_job", "kind", "built_like", "made", "enqueuer", "on_store", "opened", "store"),
    *("pages", "command", "view", "enqueue_here", "clip", "check", "hold", "app", "settled", "carried"),
}
"""Names without an underscore that are for Tenure's own modules."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def page() -> str:
    """The whole page."""
    parts = [OPENING, *_names(), *_options(), *_settings(), *_commands(), *_errors()]
    return "\n".join(parts) + "\n"


# Names


def _names() -> Iterator[str]:
    yield "## Names\n"
    for name in tenure.__all__:
        value = getattr(tenure, name)
        if getattr(errors, name, None) is not value:
            yield from _class(name, value) if isinstance(value, type) else _function(name, value)


def _class(name: str, value: type) -> Iterator[str]:
    yield f"### {name}\n"
    if value.__doc__:
        yield f"{_text(value)}\n"
    if issubclass(value, Exception) and "__init__" in vars(value):
        (made,) = (node for node in _tree(value).body if isinstance(node, Function) and node.name == "__init__")
        yield f"`{_signature(made).removesuffix(' -> None').replace('__init__', name)}`\n"
    members = dict(member for base in reversed(_bases(value)) for member in _members(base))
    rows = [_row(f"`{shown}`", said) for shown, said in members.items() if said]
    bare = [f"`{shown}`" for shown, said in members.items() if not said]
    if bare:
        yield f"{', '.join(bare)}\n"
    if rows:
        yield from ("| | |", "|---|---|", *rows, "")


def _bases(value: type) -> list[type]:
    """The class and those of ours that it is made of. A tenant's surface is told once, with the app."""
    ours = [base for base in value.__mro__ if base.__module__.startswith("tenure.")]
    return [base for base in ours if not (value is tenure.Tenant and base is not value)]


def _function(name: str, value: Any) -> Iterator[str]:
    if inspect.isfunction(value):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body
        assert isinstance(tree, Function)
        yield f"### {name}\n"
        yield f"`{_signature(tree)}`: {_text(value)}\n"
    else:
        yield from _alias(name)


def _alias(name: str) -> Iterator[str]:
    """A name for a type."""
    body = ast.parse(inspect.getsource(import_module(tenure._HOMES[name]))).body
    for at, node in enumerate(body):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            yield f"### {name}\n\n`{ast.unparse(node.value)}` {_first(_said_after(body, at))}".rstrip() + "\n"


def _members(value: type) -> Iterator[tuple[str, str]]:
    """What a class has, with what is said of it. Attributes that are set when it is made count if something is said."""
    body = _tree(value).body
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            for at, line in enumerate(node.body):
                target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
                said = _said_after(node.body, at)
                if isinstance(target, ast.Attribute) and said and target.attr[0] != "_" and target.attr not in INTERNAL:
                    yield target.attr, _first(said)
    for at, node in enumerate(body):
        if isinstance(node, Function) and node.name[0] != "_" and node.name not in INTERNAL:
            decorators = {ast.unparse(one) for one in node.decorator_list}
            if "overload" not in decorators:
                shown = node.name if "property" in decorators else _signature(node)
                yield shown, _first(ast.get_docstring(node))
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name) and target.id[0] != "_" and target.id not in INTERNAL:
                yield target.id, _first(_said_after(body, at))


def _signature(node: Function) -> str:
    arguments = node.args
    for group in (arguments.posonlyargs, arguments.args):
        group[:] = [one for one in group if one.arg not in ("self", "cls")]
        for one in group:
            one.annotation = _unquoted(one.annotation)
    for one in arguments.kwonlyargs:
        one.annotation = _unquoted(one.annotation)
    result = "" if node.returns is None else f" -> {ast.unparse(_unquoted(node.returns) or node.returns)}"
    start = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"{start}{node.name}({ast.unparse(arguments)}){result}"


def _unquoted(annotation: ast.expr | None) -> ast.expr | None:
    """An annotation that is written as text, as what it says."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ast.parse(annotation.value, mode="eval").body
    return annotation


# Options and settings


def _options() -> Iterator[str]:
    yield "## Options of a job\n"
    yield "For `@app.job(…)` and for `.options(…)`, except where one of them is named. The latter goes before.\n"
    yield from ("| option | type | |", "|---|---|---|")
    for owner in (Options, JobOptions):
        for name, annotation, said in _fields(owner):
            only = "" if name in CALL_OPTIONS & JOB_OPTIONS else f" {_only(name)}"
            yield _row(f"`{name}`", f"`{annotation}`", f"{said}{only}".strip())
    yield "\n## Options of a queue\n"
    yield "For `app.queue(name).configure(…)`, `app.tenant(…).queue(name).configure(…)`, `tenure queues configure`.\n"
    yield from ("| option | type | |", "|---|---|---|")
    for name, annotation, said in _fields(QueueOptions):
        yield _row(f"`{name}`", f"`{annotation}`", said)
    yield ""


def _only(name: str) -> str:
    return "For `.options()` only." if name in CALL_OPTIONS else "For `@app.job()` only."


def _settings() -> Iterator[str]:
    yield "## Settings\n"
    yield "For `Tenure(settings=Settings(…))`; what isn't given comes from the environment.\n"
    yield from ("| setting | variable | default | |", "|---|---|---|---|")
    defaults = Settings()
    for name, _, said in _fields(Settings):
        yield _row(f"`{name}`", f"`{PREFIX}{name.upper()}`", f"`{getattr(defaults, name)}`", said)
    yield ""


def _fields(owner: type) -> Iterator[tuple[str, str, str]]:
    """Name, annotation and docstring of each field of a class."""
    body = _tree(owner).body
    for at, node in enumerate(body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, ast.unparse(node.annotation).replace("'", '"'), _first(_said_after(body, at))


# Commands


def _commands() -> Iterator[str]:
    yield "## Commands\n"
    yield "With examples: [cli.md](cli.md).\n"
    modules = [import_module(f"tenure.service.cli.{name}") for name in dict.fromkeys(COMMANDS.values())]
    for name, command in _subparsers(parser(modules)):
        yield from _command(f"tenure {name}", command)


def _command(name: str, command: argparse.ArgumentParser) -> Iterator[str]:
    actions = list(_subparsers(command))
    if actions:
        for action, inner in actions:
            yield from _command(f"{name} {action}", inner)
        return
    yield f"### {name}\n\n{command.description}\n"
    rows = [_row(f"`{_option(one)}`", _help(one)) for one in command._actions if one.dest not in ("help", "debug")]
    if rows:
        yield from ("| | |", "|---|---|", *rows, "")


def _subparsers(of: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _option(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else action.metavar or action.dest.upper()
    if not action.option_strings:
        return str(value)
    return f"{', '.join(action.option_strings)} {value}".strip()


def _help(action: argparse.Action) -> str:
    said = (action.help or "").replace("%(default)s", str(action.default))
    choices = f" ({', '.join(map(str, action.choices))})" if action.choices is not None else ""
    return f"{said}{choices}".strip()


# Errors


def _errors() -> Iterator[str]:
    yield "## Errors\n"
    yield "All are imported from `tenure`.\n"
    yield from ("| error | is a | |", "|---|---|---|")
    known = vars(errors).values()
    for value in known:
        if isinstance(value, type) and issubclass(value, Exception):
            parents = ", ".join(f"`{base.__name__}`" for base in value.__bases__)
            yield _row(f"`{value.__name__}`", parents, _text(value))


# Text


def _tree(value: type) -> ast.ClassDef:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body
    assert isinstance(tree, ast.ClassDef)
    return tree


def _said_after(body: list[ast.stmt], at: int) -> str | None:
    """The docstring of a field: the text that stands behind it."""
    after = body[at + 1] if at + 1 < len(body) else None
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
        return after.value.value
    return None


def _text(value: Any) -> str:
    return _first(inspect.getdoc(value))


def _first(text: str | None) -> str:
    """The first paragraph, as one line."""
    return " ".join((text or "").strip().partition("\n\n")[0].split())


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    print(page(), end="")
