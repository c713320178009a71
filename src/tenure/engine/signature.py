"""A handler's parameters: bound and checked when a job is enqueued, decoded when it runs."""

import inspect
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from tenure.codecs import Codec
from tenure.domain.errors import InvalidValue
from tenure.engine.annotations import signature_of, written
from tenure.engine.context import Context
from tenure.engine.signals import text_of

_CONTEXT_NAMES = ("Context", "tenure.Context")
"""How an annotation that isn't evaluated yet says it."""
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_PLAIN = (str, int, bool)
"""Types whose values a codec gives back as they are."""


class HandlerSignature:
    """What a function takes besides its context, and what it gives back.

    Annotations are looked at when they are first needed, so they may name what is defined later in the module.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        self._function = function
        self._signature = signature_of(function)
        for parameter in self._signature.parameters.values():
            if parameter.kind not in _NAMED:
                raise InvalidValue(
                    f"job {name}: parameter {parameter} has no name to be sent under; "
                    "give every parameter a name, without * or /"
                )
        self._check_context()

    def _check_context(self) -> None:
        """Refuses a context that would be taken for an argument, as far as annotations show it now."""
        for at, (name, parameter) in enumerate(self._signature.parameters.items()):
            annotation = written(parameter.annotation)
            if at and (annotation is Context or annotation in _CONTEXT_NAMES):
                raise InvalidValue(f"job {self._name}: {name}: Context must be the first parameter")
            if name == "ctx" and annotation is inspect.Parameter.empty:
                raise InvalidValue(
                    f"job {self._name}: annotate ctx as tenure.Context, and let it be the first parameter; "
                    "without that it is an argument to be sent"
                )

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(self._function, include_extras=True)
        except NameError as error:
            raise InvalidValue(f"job {self._name}: an annotation can't be resolved ({error})") from error

    @cached_property
    def takes_context(self) -> bool:
        """Whether the first parameter is annotated as `Context`."""
        first = next(iter(self._signature.parameters), None)
        return first is not None and self._hints.get(first) is Context

    @cached_property
    def _sent(self) -> inspect.Signature:
        parameters = list(self._signature.parameters.values())
        return inspect.Signature(parameters[1:] if self.takes_context else parameters)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of what is sent, in order."""
        return tuple(self._sent.parameters)

    @property
    def required(self) -> tuple[str, ...]:
        """Parameters without a default, without the context as far as annotations show it now."""
        parameters = list(self._signature.parameters.values())
        try:
            context = self.takes_context
        except InvalidValue:  # an annotation of what is defined later
            first = parameters[0].annotation if parameters else None
            context = isinstance(first, str) and first.rpartition(".")[2] == Context.__name__
        return tuple(one.name for one in parameters[context:] if one.default is inspect.Parameter.empty)

    @cached_property
    def arguments_type(self) -> type[msgspec.Struct]:
        """The parameters as one type: what a payload must be."""
        fields: list[Any] = []
        for name, parameter in self._sent.parameters.items():
            hint = self._hints.get(name, Any)
            if parameter.default is inspect.Parameter.empty:
                fields.append((name, hint))
            else:
                fields.append((name, typing.Union[hint, UnsetType], UNSET))  # noqa: UP007 a hint may be a string
        try:
            made = msgspec.defstruct(f"{self._name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)
            msgspec.json.Decoder(made)
        except TypeError as error:
            raise InvalidValue(f"job {self._name}: its parameters can't be sent ({error})") from error
        return made

    @cached_property
    def _plain(self) -> dict[str, Any]:
        """Parameters of such types."""
        return {name: hint for name in self._sent.parameters if (hint := self._hints.get(name)) in _PLAIN}

    @cached_property
    def result_type(self) -> Any:
        return self._hints.get("return", Any)

    @cached_property
    def _names(self) -> tuple[tuple[str, ...], int, frozenset[str]]:
        """The parameters in order, how many may come by position, and which must come."""
        parameters = self._sent.parameters.values()
        by_position = sum(1 for one in parameters if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)
        required = frozenset(one.name for one in parameters if one.default is inspect.Parameter.empty)
        return tuple(self._sent.parameters), by_position, required

    @cached_property
    def _has_defaults(self) -> bool:
        names, _, required = self._names
        return len(required) < len(names)

    @cached_property
    def _all_by_position(self) -> int:
        """How many arguments there are if all of them come by position; -1 if some can't."""
        names, by_position, _ = self._names
        return by_position if by_position == len(names) else -1

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, in the order of the parameters, without defaults.

        Raises `InvalidValue` like a wrong call raises TypeError. `inspect` says what is wrong; it isn't asked when
        nothing is, for it takes four times as long.
        """
        if not kwargs and len(args) == self._all_by_position:
            return dict(zip(self._names[0], args, strict=True))
        names, by_position, required = self._names
        given = dict(zip(names, args, strict=False))
        if len(args) <= by_position and given.keys().isdisjoint(kwargs) and required <= given.keys() | kwargs.keys():
            if not kwargs:
                return given
            given.update(kwargs)
            ordered = {name: given[name] for name in names if name in given}
            if len(ordered) == len(given):
                return ordered
        try:
            return dict(self._sent.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise InvalidValue(f"{self._name}(): {error}") from None

    def with_defaults(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function will see them."""
        bound = self._sent.bind(**arguments)
        bound.apply_defaults()
        return dict(bound.arguments)

    def encode(self, arguments: Mapping[str, Any], codec: Codec) -> bytes:
        """The payload. A value of the wrong type is refused before anything is stored: what isn't plainly of the right
        one is decoded at once.
        """
        body, plain = codec.encode(arguments), self._plain
        for name, value in arguments.items():
            if type(value) is not plain.get(name):
                self._decoded(body, codec)
                break
        return body

    def decode(self, body: bytes, codec: Codec) -> dict[str, Any]:
        """The arguments of a payload, typed."""
        found = asdict(self._decoded(body, codec))
        if self._has_defaults and any(value is UNSET for value in found.values()):
            return {name: value for name, value in found.items() if value is not UNSET}
        return found

    def _decoded(self, body: bytes, codec: Codec) -> msgspec.Struct:
        try:
            decoded: msgspec.Struct = codec.decode(body, self.arguments_type)
        except InvalidValue as error:
            raise InvalidValue(f"{self._name}(): {error}") from error
        return decoded

    def encode_result(self, value: Any, codec: Codec) -> bytes:
        """What the handler returned, as a result. Raises `InvalidValue` where whoever asks for it would: what isn't
        plainly of the right type is decoded at once.
        """
        body, type_ = codec.encode(value), self.result_type
        if type_ is not Any and (type(value) is not type_ or type_ not in _PLAIN):
            with suppress(TypeError):  # an annotation that no codec can read says nothing of this value
                codec.decode(body, type_)
        return body

    def schema(self) -> dict[str, Any]:
        """The JSON Schemas of parameters and result, for whoever enqueues without this code."""
        schemas = {"parameters": msgspec.json.schema(self.arguments_type)}
        try:
            schemas["result"] = msgspec.json.schema(self.result_type)
        except TypeError:
            schemas["result"] = {}
        return schemas


def of_result(error: BaseException) -> str:
    """A codec's words about a result: a codec speaks of payloads, for it can't know."""
    return text_of(error).removeprefix("payload: ")
