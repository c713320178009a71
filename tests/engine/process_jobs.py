"""A job of a module that knows no app: whoever includes it does."""

from tenure import Jobs

elsewhere = Jobs()


@elsewhere.job(executor="process")
def of_another_module() -> str:
    return "found"
