"""The demo's work, its sinks and its proof, and the examples."""
