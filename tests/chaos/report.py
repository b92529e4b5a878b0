"""What a run says at its end."""


def percentile(values, share):
    """The value that `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def write(chaos):
    tally = chaos.load.tally
    print(f"\n{chaos.struck.total()} blows in {chaos.seconds:.0f} s, "
          f"{chaos.missed.total()} missed their target")
    for kind, count in sorted(chaos.struck.items()):
        print(f"  {kind:10} {count}")
    print(f"{tally.answers} answers, {tally.tokens} tokens; {tally.cancelled} cancelled on "
          f"purpose, {tally.resumed} went on in another attempt, {tally.retries} calls repeated by "
          "clients")
    for why, count in sorted(tally.retried_for.items(), key=lambda item: -item[1])[:12]:
        print(f"  {count:5} {why}")
    waits = [percentile(tally.recoveries, share) for share in (0.5, 0.99, 1)]
    print(f"longest silence of {len(tally.recoveries)} answers that were struck: "
          f"p50 {waits[0]:.2f} s, p99 {waits[1]:.2f} s, max {waits[2]:.2f} s")
    print("resident MiB (open files) at the quiet moments of processes that lived through several:")
    for (slot, number), sizes in chaos.memory.by_life.items():
        if len(sizes) > 1:
            files = chaos.memory.files[slot, number]
            seen = (f"{size:.1f} ({count})" for size, count in zip(sizes, files))
            print(f"  {slot}.{number}: " + " ".join(seen))
    print("warnings and errors in logs:")
    for line, count in sorted(chaos.service.log_lines.items(), key=lambda item: -item[1])[:15]:
        print(f"  {count:5} {line}")
    print(f"{len(chaos.failures)} FAILURES: see above" if chaos.failures
          else "nothing lost, doubled, different or held")
