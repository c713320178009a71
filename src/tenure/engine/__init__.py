"""The engine: the app, typed jobs and their handles, the worker and its loops."""
