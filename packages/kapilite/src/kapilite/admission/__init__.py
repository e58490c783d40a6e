"""Dynamic admission: the webhooks that configurations in the store name are asked about writes.

A write is shown first to the mutating webhooks, one after another, each seeing what the one before
made of the object, and then, complete and checked, to the validating ones, all at once.
`dispatch.Admission` does both; a write calls its `concerns` first, which costs one look into
a table, so that writes which no webhook wants never leave their transaction.

Nothing is imported here: the built-in kinds take `kinds.KINDS` in, and `dispatch` needs the
built-in kinds.
"""
