"""The admission webhook: rules as pure functions, and the server that has them judged.

Nothing here writes. What a rule needs to know is in the `World`, a copy of the cluster that watches
keep; what the API server must be asked about rights is said by the rule and asked beforehand.
"""
