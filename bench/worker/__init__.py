"""The whole worker: no-op jobs from the queue through the handler to their end, beside Huey, each in its processes."""
