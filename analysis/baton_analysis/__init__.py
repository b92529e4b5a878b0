"""Reads and draws what `baton bench` measured.

rows         one raw record per request, from --rows
result       the figures of a bench, from --out
bench_plots  the pictures of --plots
"""
