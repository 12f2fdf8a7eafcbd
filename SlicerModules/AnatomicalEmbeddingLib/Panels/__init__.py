"""What all panels share: the session, settings, set-up, and small parts."""
