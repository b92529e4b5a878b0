"""Predictors of how an answer goes on until its end: trained, compared, and written for the service."""
