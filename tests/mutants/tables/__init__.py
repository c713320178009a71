"""The mutants, one table for each module they change; the file is named after the module."""
