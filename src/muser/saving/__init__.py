"""Session files: a session, or a generation in progress, that goes on later as if nothing had happened."""
