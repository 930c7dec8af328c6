"""Measurements that stand beside the package and use its public surface only."""
