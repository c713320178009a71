"""The suite hands out every topic it has."""

from importlib import import_module
from pkgutil import iter_modules

from tenure.testing import conformance


def test_every_topic_is_exported() -> None:
    modules = {module.name for module in iter_modules(conformance.__path__)} - {"kit"}
    exported = {getattr(conformance, name).__module__ for name in conformance.__all__ if name.startswith("Test")}
    assert exported == {f"{conformance.__name__}.{name}" for name in modules}


def test_every_test_of_a_topic_is_in_its_class() -> None:
    for name in conformance.__all__:
        if name.startswith("Test"):
            topic = getattr(conformance, name)
            module = import_module(topic.__module__)
            assert [test for test in vars(module) if test.startswith("test_") and not hasattr(topic, test)] == []
