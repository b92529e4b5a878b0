"""What EOS logs tell about how answers end: reading them, features, statistics, pictures, one page.

    from baton_analysis.eos.log import LogReader
    for sequence in LogReader(["eos_probabilities.jsonl"]).sequences():
        print(sequence.request_id, sequence.length, sequence.natural)
"""
