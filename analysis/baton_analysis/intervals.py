"""How far a mean of few values may be off."""

import math
import statistics

# Of Student's t, for 1 to 30 degrees of freedom: 97.5 % of it is below.
_T975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
         2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


def half(values: list[float]) -> float:
    """Half of a 95 % interval of the mean, by Student's t; 0 of a single value."""
    if len(values) < 2:
        return 0.0
    degrees = len(values) - 1
    t = _T975[degrees - 1] if degrees <= len(_T975) else 1.96 + 2.5 / degrees
    return t * statistics.stdev(values) / math.sqrt(len(values))
