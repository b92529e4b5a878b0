"""The dashboards, a module each."""
