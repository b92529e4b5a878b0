"""Predictors of how answers end: trained, compared, and written for the service."""
