"""Devices as dynamic resource allocation knows them: what a node's ResourceSlices say."""
