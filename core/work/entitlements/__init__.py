"""Entitlement reconciliation: plan, judge, apply and prove, range by range."""
