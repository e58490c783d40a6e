"""What the spec of a VSphereMachine requests: parsed, validated, compared."""
