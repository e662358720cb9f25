#!/usr/bin/env python3
"""Runs every command that README.md, docs, configs/README.md, profiles/README.md, configs/sweeps, the examples of --help
and the manual pages show. Each must end with exit code 0; the output that README.md shows must be what the program prints.

    commands_test.py HPPLAN SOURCE_DIR

What is a command: lines of ```sh blocks, lines that start with "$ " in other blocks, `hpplan ...` in running text,
comment lines of configs/sweeps that start with hpplan, examples, and indented hpplan lines of manual pages.
Not run: forms with words in CAPITALS (`hpplan VERB --help`); scripts/*, which must exist and be executable (they build
the project: continuous integration runs them); sbatch and parallel.sh, which tests/slow/sweep_launchers_test.sh runs.
Made shorter: plans of models above 3 billion parameters, by --time-limit 2.
Skipped with a word: a pipe into a program that is not installed.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

hpplan, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
LARGE = re.compile(r"gpt3-(6\.7b|13b|70b)")


def read(path):
    with open(os.path.join(source, path), encoding="utf-8") as file:
        return file.read()


def commands_of_markdown(path):
    """(command, expected output or None), in order."""
    found, block, tag, shown = [], False, "", None
    for line in read(path).splitlines():
        if line.startswith("```"):
            block, tag, shown = not block, line[3:].strip(), None
        elif block and tag == "sh":
            if line.strip():
                found.append([line.split("  #")[0].strip(), None])
        elif block and line.startswith("$ "):
            shown = [line[2:], ""]
            found.append(shown)
        elif block and shown is not None:
            shown[1] += line + "\n"
        elif not block:
            found += [[each, None] for each in re.findall(r"`(hpplan [^`]+)`", line)]
    return found


def commands_of_comments(folder):
    found = []
    for name in sorted(os.listdir(os.path.join(source, folder))):
        for line in read(os.path.join(folder, name)).splitlines():
            match = re.match(r"#\s+((?:hpplan|sbatch) .*|.*\./parallel\.sh.*)$", line)
            if match:
                found.append([match.group(1), None])
    return found


def commands_of_help():
    found, pages = [], [[]]

    def walk(verb, words):
        if "example" in verb:
            found.append([verb["example"], None])
        for below in verb["verbs"]:
            pages.append(words + [below["name"]])
            walk(below, words + [below["name"]])

    walk(json.loads(subprocess.check_output([hpplan, "man", "--json"])), [])
    top = subprocess.check_output([hpplan, "--help"], text=True)
    found.append([top.rstrip().splitlines()[-1].strip(), None])
    for words in pages:
        page = subprocess.check_output([hpplan, "man"] + words, text=True)
        listing = False
        for line in page.splitlines():
            listing = line == ".nf" or (listing and line != ".fi")
            if listing and line.startswith("hpplan "):
                found.append([re.sub(r"\\(.)", r"\1", line.replace("\\(aq", "'")), None])
    return found


def prepare(folder):
    """The files that examples name."""
    for name in ("configs", "profiles", "scripts"):
        os.symlink(os.path.join(source, name), os.path.join(folder, name))

    def write(name, text):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    write("config.json", '{"model_type": "llama", "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4,'
          ' "num_attention_heads": 4, "vocab_size": 32000, "max_position_embeddings": 4096, "tie_word_embeddings": false}')
    write("hosts.txt", "node1 slots=4\nnode2 slots=4\n")
    rows = [(1 << k, 10.0 + (1 << k) / 200e3) for k in range(20, 28)]
    write("run.txt", "# nThread 1 nGpus 4\n#  Rank  0 Group  0 Pid 1 on node1 device  0 [0x07] A100\n"
          "#  Rank  1 Group  0 Pid 1 on node1 device  1 [0x0f] A100\n#  Rank  2 Group  0 Pid 1 on node1 device  2 [0x47] A100\n"
          "#  Rank  3 Group  0 Pid 1 on node1 device  3 [0x4e] A100\n"
          "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n" +
          "".join(f"{size} {size // 4} float sum -1 {time:.1f} {size / time / 1e3:.2f} {size / time / 1e3 * 1.5:.2f} 0 "
                  f"{time:.1f} {size / time / 1e3:.2f} {size / time / 1e3 * 1.5:.2f} 0\n" for size, time in rows))
    layers = 26  # of opt-350m, embedding and head included
    for samples in (1, 2):
        write(f"metis_profiles/DeviceType.A100_tp1_bs{samples}.json", json.dumps({
            "model": {"model_name": "opt-350m", "num_layers": layers, "parameters": {}},
            "execution_time": {"layer_compute_total_ms": [1.0] + [9.0 * samples] * (layers - 2) + [2.0]},
            "execution_memory": {"layer_memory_total_mb": [10.0 * samples] * layers}}))


def runnable(command):
    words = re.findall(r"[A-Za-z_./-]+", re.sub(r"\b[A-Z]+=\S+", "", command))
    return not any(re.fullmatch(r"[A-Z][A-Z_]+", word) for word in words)


def shortened(command):
    if command.startswith("hpplan plan ") and LARGE.search(command):
        return command + " --time-limit 2"
    return command


def main():
    commands = []
    for path in ("README.md", "docs/using.md", "docs/developing.md", "configs/README.md", "profiles/README.md"):
        commands += [(path, *each) for each in commands_of_markdown(path)]
    commands += [("--help", *each) for each in commands_of_help()]
    # Parts come last: examples above write the files that they summarize.
    commands += [("configs/sweeps", *each) for each in commands_of_comments("configs/sweeps")]
    # What a plan.json in running text means is the one that the example of plan writes.
    commands.sort(key=lambda each: 0 if "--out plan.json" in each[1] else 1)
    failures = run = 0
    done = set()
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        environment = dict(os.environ, PATH=os.path.dirname(hpplan) + os.pathsep + os.environ["PATH"], LC_ALL="C.UTF-8")
        environment.pop("HPPLAN_DATA", None)

        def bash(command):
            return subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)

        for part in (1, 2):
            bash(f"hpplan sweep configs/sweeps/small.yaml --out part{part}.jsonl --shard {part}/2")
            bash(f"mkdir -p results && cp part{part}.jsonl results/part-{part}.jsonl")
        for place, command, expected in commands:
            if command in done and expected is None:
                continue
            done.add(command)
            if command.startswith("scripts/"):
                script = os.path.join(source, command.split()[0])
                run += 1
                if not os.access(script, os.X_OK):
                    failures += 1
                    print(f"FAILED {place}: {command}: no such script")
                continue
            if not runnable(command) or command.startswith("sbatch") or "parallel.sh" in command:
                print(f"form   {place}: {command}")
                continue
            missing = [each for each in re.findall(r"[|;&]\s*(\w+)", command) if shutil.which(each, path=environment["PATH"]) is None and each != "source"]
            if missing:
                print(f"skip   {place}: {command}: no {missing[0]}")
                continue
            run += 1
            result = bash(shortened(command))
            good = result.returncode == 0
            if good and expected is not None and result.stdout != expected:
                good = False
                print("expected:\n" + expected + "printed:\n" + result.stdout)
            print(f"{'ok    ' if good else 'FAILED'} {place}: {command}")
            if not good:
                failures += 1
                print(result.stdout[-500:] + result.stderr[-2000:])
    print(f"{run} commands, {failures} failures")
    return 1 if failures or run < 20 else 0


sys.exit(main())
