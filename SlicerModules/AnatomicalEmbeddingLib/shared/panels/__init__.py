"""Qt parts of the modules' panels: the session, settings, set-up, buttons of the views."""
