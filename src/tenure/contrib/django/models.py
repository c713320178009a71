"""No models. Django sends `pre_migrate`, by which the jobs' tables are made, to apps that have this module."""
