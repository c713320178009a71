"""Annotations of functions that may name what isn't defined yet.

Before Python 3.14 such a name is a string, or a NameError where the function is defined. From 3.14 annotations are
evaluated when they are asked for (PEP 649): asked for too early, a name that is defined later would be an error.
"""

import inspect
import sys
from collections.abc import Callable
from typing import Any

if sys.version_info >= (3, 14):
    from annotationlib import Format

    def signature_of(function: Callable[..., Any]) -> inspect.Signature:
        """Its parameters; an annotation that can't be evaluated yet is a `ForwardRef`."""
        return inspect.signature(function, annotation_format=Format.FORWARDREF)

else:

    def signature_of(function: Callable[..., Any]) -> inspect.Signature:
        """Its parameters; an annotation that isn't evaluated yet is its text."""
        return inspect.signature(function)


def written(annotation: Any) -> Any:
    """The text of an annotation that isn't evaluated yet; any other as it is."""
    return getattr(annotation, "__forward_arg__", annotation)
