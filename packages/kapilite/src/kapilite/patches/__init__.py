"""JSON patches, merge patches and strategic ones, as functions of an object."""
