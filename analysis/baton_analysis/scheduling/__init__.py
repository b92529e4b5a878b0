"""The study of scheduling in the simulator: docs/scheduling.md says what it asks and how.

From the inputs up: `costs` reckons what steps take on devices nobody here has, `workloads` cuts traces and logs into the
parts of seeds, `settings` says what is simulated, `simulate` calls `baton sim`, `study` tunes and runs all of it, `figures`
are means, intervals and the rule for the default, `tables` and `pictures` tell them.
"""
