#!/usr/bin/env python3
"""What each of the four search optimisations saves, and what a tolerance saves, on the reference workloads.

Runs `hpplan plan` on every workload, pair of device types, set of switches and tolerance, and writes

  ablation.csv    one line a run: counted work, time, the plan's time and proved bound
  ablation.svg    planning time with the optimisations added one by one
  tolerance.svg   planning time, and how far the plans are from the bound, by tolerance

Without dynamic programming larger workloads do not end: such a run is stopped at --limit seconds, its line says
finished=no, and its bar is drawn open at the top. A run is not even started where the same switches did not finish a
smaller workload of the same pair; its line says skipped.

Example: tests/bench/search/ablation.py --hpplan build/release/hpplan --out /tmp/bench --limit 60
"""

import argparse
import csv
import json
import math
import pathlib
import subprocess
import sys
import tempfile

WORKLOADS = [("gpt3-350m", 4), ("gpt3-1.3b", 8), ("gpt3-2.6b", 16), ("gpt3-6.7b", 32), ("gpt3-13b", 64), ("gpt3-70b", 512)]
PAIRS = ["b2-b3", "b2-b4", "b3-b4", "a100-3090"]
OFF = ["--no-cpc", "--no-ses", "--no-oso", "--no-dpo"]
SWITCHES = ["none", "+CPC", "+SES", "+OSO", "+DPO"]
ALPHAS = [0.0, 0.01, 0.02, 0.05, 0.1]
FIELDS = ["model", "pair", "devices", "global_batch", "switches", "tolerance", "finished", "proved", "search_s",
          "iteration_time_s", "lower_bound_s", "branches", "tables", "tables_reused", "transitions", "candidates", "skipped",
          "improvements", "tied"]
COLOURS = ["#7f7f7f", "#4e79a7", "#59a14f", "#f28e2b", "#b22222", "#76507a"]


def run(arguments, model, pair, devices, switches, alpha):
    """One plan; nothing of it is kept but numbers."""
    off = OFF[SWITCHES.index(switches):]
    with tempfile.TemporaryDirectory() as folder:
        report_file = pathlib.Path(folder) / "report.json"
        plan_file = pathlib.Path(folder) / "plan.json"
        command = [arguments.hpplan, "plan", "--model", model, "--cluster", f"{pair}-{devices}", "--global-batch",
                   str(arguments.global_batch), "--threads", str(arguments.threads), "--time-limit", str(arguments.limit),
                   "--tolerance", str(alpha), "--report", str(report_file), "--out", str(plan_file), "--quiet",
                   "--progress", "never"] + off
        if arguments.micro_batch:
            command += ["--micro-batch", arguments.micro_batch]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 3) or not report_file.exists():
            sys.exit(f"{' '.join(command)}\nended with {done.returncode}: {done.stderr}")
        report = json.loads(report_file.read_text())
        plan = json.loads(plan_file.read_text()) if plan_file.exists() else {}
    seconds = report["wall_s"]["search"]
    # A search that was stopped before it met any plan leaves no plan to say so.
    finished = plan["complete"] if plan else seconds < 0.95 * arguments.limit
    line = {"model": model, "pair": pair, "devices": devices, "global_batch": arguments.global_batch, "switches": switches,
            "tolerance": alpha, "finished": "yes" if finished else "no",
            "proved": "yes" if report["proved"] else "no", "search_s": round(seconds, 4),
            "iteration_time_s": plan.get("iteration_time_s", ""), "lower_bound_s": plan.get("lower_bound_s", "")}
    line.update({name: report["counts"].get(name, "") for name in FIELDS[11:]})
    return line


def measure(arguments):
    workloads = WORKLOADS[:arguments.workloads]
    out = pathlib.Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    with open(out / "ablation.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()

        def add(line):
            writer.writerow(line)
            file.flush()
            lines.append({key: str(value) for key, value in line.items()})
            print(f"{line['model']:10} {line['pair']:10} {line['switches']:5} alpha {line['tolerance']:<5} "
                  f"{line['search_s'] if line['search_s'] != '' else '-':>9} s  finished: {line['finished']}", file=sys.stderr)

        for pair in arguments.pairs:
            unfinished = set()
            for model, devices in workloads:
                for switches in SWITCHES:
                    for alpha in ALPHAS if switches == SWITCHES[-1] else [0.0]:
                        if switches in unfinished:
                            add(dict.fromkeys(FIELDS, "") | {"model": model, "pair": pair, "devices": devices,
                                                             "global_batch": arguments.global_batch, "switches": switches,
                                                             "tolerance": alpha, "finished": "skipped"})
                            continue
                        line = run(arguments, model, pair, devices, switches, alpha)
                        add(line)
                        if line["finished"] == "no" and switches != SWITCHES[-1]:
                            unfinished.add(switches)
    return lines


# ---- pictures ----------------------------------------------------------------------------------------------------------


class Svg:
    def __init__(self, width, height):
        self.width, self.height = width, height
        self.parts = []

    def rect(self, x, y, w, h, fill, extra=""):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" fill="{fill}" {extra}/>')

    def line(self, x1, y1, x2, y2, colour="#cccccc", width=1.0, extra=""):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
                          f'stroke-width="{width}" {extra}/>')

    def text(self, x, y, text, anchor="middle", size=12, extra=""):
        escaped = str(text).replace("&", "&amp;").replace("<", "&lt;")
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" {extra}>{escaped}</text>')

    def save(self, path):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" font-family="sans-serif">\n'
                f'<rect width="{self.width}" height="{self.height}" fill="white"/>\n')
        pathlib.Path(path).write_text(head + "\n".join(self.parts) + "\n</svg>\n")


class LogAxis:
    """Powers of ten from the bottom to the top of a panel."""

    def __init__(self, svg, values, left, right, top, bottom, label):
        low = math.floor(math.log10(min(values) * 0.7))   # the least bar has a height
        high = math.ceil(math.log10(max(values)) + 1e-9)
        self.low, self.high, self.top, self.bottom = low, max(high, low + 1), top, bottom
        for power in range(self.low, self.high + 1):
            y = self.at(10.0**power)
            svg.line(left, y, right, y)
            svg.text(left - 8, y + 4, f"{10.0**power:g}", "end")
        middle = (top + bottom) / 2
        svg.text(left - 52, middle, label, extra=f'transform="rotate(-90 {left - 52:.1f} {middle:.1f})"')

    def at(self, value):
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.bottom - share * (self.bottom - self.top)


def number(line, field):
    return float(line[field]) if line[field] else None


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def draw_ablation(lines, path):
    rows = [line for line in lines if float(line["tolerance"]) == 0.0 and line["search_s"]]
    models = [model for model, _ in WORKLOADS if any(line["model"] == model for line in rows)]
    if not models:
        return
    bars = {}
    for model in models:
        for switches in SWITCHES:
            found = [line for line in rows if line["model"] == model and line["switches"] == switches]
            if found:
                bars[model, switches] = (geometric_mean([max(number(line, "search_s"), 1e-4) for line in found]),
                                         all(line["finished"] == "yes" for line in found))
    group, bar, left, top, bottom = 172, 29, 90, 60, 380
    svg = Svg(left + group * len(models) + 30, 450)
    svg.text(svg.width / 2, 24, "Planning time with the optimisations added one by one", size=16)
    svg.text(svg.width / 2, 44, "geometric mean over pairs of device types; open and dashed: stopped at the limit; –: not started, as less did not end", size=12)
    axis = LogAxis(svg, [value for value, _ in bars.values()], left, svg.width - 20, top, bottom, "planning time, s")
    for i, model in enumerate(models):
        start = left + i * group + 14
        for k, switches in enumerate(SWITCHES):
            x = start + k * bar
            if (model, switches) not in bars:
                svg.text(x + bar / 2, bottom - 6, "–", size=11)
                continue
            value, finished = bars[model, switches]
            y = axis.at(value)
            extra = "" if finished else f'fill-opacity="0.35" stroke="{COLOURS[k]}" stroke-dasharray="3 2"'
            svg.rect(x + 2, y, bar - 4, bottom - y, COLOURS[k], extra)
            label = f"{value:.2g}" if value < 100 else f"{value:.0f}"
            svg.text(x + bar / 2, y - 4, label if finished else f">{label}", size=9)
        devices = dict(WORKLOADS)[model]
        svg.text(start + 2.5 * bar, bottom + 18, model)
        svg.text(start + 2.5 * bar, bottom + 33, f"{devices} devices", size=11)
    for k, switches in enumerate(SWITCHES):
        x = left + k * 80
        svg.rect(x, 425, 12, 12, COLOURS[k])
        svg.text(x + 17, 435, switches, "start")
    svg.save(path)


def draw_tolerance(lines, path):
    rows = [line for line in lines if line["switches"] == SWITCHES[-1] and line["search_s"] and line["lower_bound_s"]]
    models = [model for model, _ in WORKLOADS if any(line["model"] == model for line in rows)]
    if not models:
        return
    svg = Svg(980, 430)
    svg.text(490, 24, "What a tolerance saves, and what it costs", size=16)
    svg.text(490, 44, "geometric mean over pairs of device types", size=12)
    panels = [(90, 460, "planning time, s", lambda line: max(number(line, "search_s"), 1e-4)),
              (590, 960, "gap to the proved bound, %",
               lambda line: max(100.0 * (number(line, "iteration_time_s") / number(line, "lower_bound_s") - 1.0), 1e-3))]
    for left, right, label, value in panels:
        axis = LogAxis(svg, [value(line) for line in rows], left, right, 60, 340, label)
        step = (right - left) / (len(ALPHAS) - 1 + 0.6)
        for a, alpha in enumerate(ALPHAS):
            svg.text(left + step * (a + 0.3), 358, f"{alpha:g}")
        svg.text((left + right) / 2, 376, "tolerance")
        for m, model in enumerate(models):
            before = None
            for a, alpha in enumerate(ALPHAS):
                found = [value(line) for line in rows if line["model"] == model and float(line["tolerance"]) == alpha]
                if not found:
                    continue
                point = (left + step * (a + 0.3), axis.at(geometric_mean(found)))
                svg.parts.append(f'<circle cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="3.5" fill="{COLOURS[m]}"/>')
                if before:
                    svg.line(*before, *point, COLOURS[m], 2)
                before = point
    svg.text(590 - 8, 402, "a gap below 0.001 is drawn as 0.001", "start", 11)
    for m, model in enumerate(models):
        svg.rect(90 + m * 120, 412, 12, 12, COLOURS[m])
        svg.text(107 + m * 120, 422, model, "start")
    svg.save(path)


def summarize(lines):
    """The largest workload that ends without any optimisation, and what all of them together save there."""
    at = {(line["model"], line["pair"], line["switches"]): line for line in lines if float(line["tolerance"]) == 0.0}
    ratios = []
    for model, devices in WORKLOADS:
        for pair in PAIRS:
            none, every = at.get((model, pair, "none")), at.get((model, pair, "+DPO"))
            if none and every and none["finished"] == "yes":
                ratio = number(none, "search_s") / max(number(every, "search_s"), 1e-4)
                same = math.isclose(number(none, "iteration_time_s"), number(every, "iteration_time_s"), rel_tol=1e-9)
                ratios.append((devices, ratio, f"{model} on {pair}-{devices}: {none['search_s']} s without, "
                               f"{every['search_s']} s with: {ratio:.0f} times; plans {'equal' if same else 'DIFFER'}"))
    for _, _, text in ratios:
        print(text)
    if not ratios:
        print("no workload ended without the optimisations within the limit")
    return all("DIFFER" not in text for _, _, text in ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hpplan", default="build/release/hpplan")
    parser.add_argument("--out", required=True, help="folder for ablation.csv and the pictures")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which a run is stopped (default 60)")
    parser.add_argument("--workloads", type=int, default=len(WORKLOADS), help="how many, from the smallest (default all)")
    parser.add_argument("--pairs", type=lambda text: text.split(","), default=PAIRS, help="pairs of device types")
    parser.add_argument("--global-batch", type=int, default=1024)
    parser.add_argument("--micro-batch", default="", help="allowed sizes (default those of hpplan)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--draw", metavar="CSV", help="only draw what an earlier run measured")
    arguments = parser.parse_args()
    out = pathlib.Path(arguments.out)
    if arguments.draw:
        out.mkdir(parents=True, exist_ok=True)
        with open(arguments.draw, newline="") as file:
            lines = list(csv.DictReader(file))
    else:
        lines = measure(arguments)
    draw_ablation(lines, out / "ablation.svg")
    draw_tolerance(lines, out / "tolerance.svg")
    return 0 if summarize(lines) else 1


if __name__ == "__main__":
    sys.exit(main())
