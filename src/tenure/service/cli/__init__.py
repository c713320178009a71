"""The command line: one module per group of commands, each thin over the engine's public surface."""
