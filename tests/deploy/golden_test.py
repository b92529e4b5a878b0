"""The manifests of sets of values, compared with those that lie in golden/.

    golden_test.py            compares
    golden_test.py --write    writes them anew; then look at what git says has changed
"""

import difflib
import re
import sys

import chart

FOLDER = chart.HERE / "golden"


def without_files(text):
    """Without what comes from the chart's files/: chart_monitoring_test.py compares that with deploy/."""
    text = re.sub(r"(?m)^(  baton-[a-z-]+\.json: )\|\n(?:    .*\n)+", r"\1(that of deploy/grafana/dashboards)\n", text)
    return re.sub(r"(?m)^(  groups:)\n(?:    .*\n)+", r"\1 (those of deploy/prometheus/rules)\n", text)


def main():
    write = sys.argv[1:] == ["--write"]
    failures = []
    for name, values in chart.VALUE_SETS.items():
        path = FOLDER / f"{name}.yaml"
        text = without_files(chart.render([values]))
        if write:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(text)
            continue
        golden = path.read_text() if path.exists() else ""
        difference = list(difflib.unified_diff(golden.splitlines(), text.splitlines(),
                                               str(path.relative_to(chart.ROOT)), "rendered now", lineterm=""))
        failures += difference[:60]
    unknown = {path.stem for path in FOLDER.glob("*.yaml")} - set(chart.VALUE_SETS)
    failures += [f"golden/{name}.yaml belongs to no set of values" for name in sorted(unknown)]
    if failures:
        print("\n".join(failures))
        print("\nIf the chart is meant to say this, type:\n"
              "  BATON_KUBE_TOOLS=$(scripts/kube_tools) /usr/bin/python3 -B tests/deploy/golden_test.py --write")
        return 1
    print(f"{len(chart.VALUE_SETS)} sets of values {'written' if write else 'give what they gave'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
