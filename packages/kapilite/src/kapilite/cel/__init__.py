"""The Common Expression Language, as far as Kubernetes uses it for rules about objects.

Written here because no library serves: those for Python check no types before a rule runs, or
cannot be handed the timestamps, durations and optional values that Kubernetes' rules see, and none
counts what an evaluation costs. An expression is parsed (`syntax`), its types are checked against
the schema when its definition is created (`checker`), and it is evaluated within a budget
(`program`). What the checker does not know is refused, never ignored.
"""
