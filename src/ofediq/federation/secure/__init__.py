"""Secure aggregation: a server that gets a sum and nothing else. No I/O, no clock."""

from ofediq.federation.secure.aggregation import MIN_COHORT, Aggregator, Member, least_answers

__all__ = ["MIN_COHORT", "Aggregator", "Member", "least_answers"]
