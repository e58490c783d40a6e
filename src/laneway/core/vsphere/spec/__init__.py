"""What the spec of a VSphereMachine asks for: parsed, validated, compared."""
