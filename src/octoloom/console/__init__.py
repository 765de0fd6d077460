"""The web console: the whole system, live, in a browser. It only looks; it changes nothing."""
