"""What every port of Laneway has in common, whoever connects to it."""
