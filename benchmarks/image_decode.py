"""What loading a JPEG photo costs: read, decode, resize to 224x224 and batch, per CPU-second on one thread.

Claims, on the demo's photos (500x375, quality 94, 4:2:0), each contender in processes of its own, all of them in one
alternating run, medians:

* one `load_image_batch` call per batch of 32 loads at least 2.5 times the images of the reference's seed flow (demux,
  decode with `get_video_filter_desc(scale_width=224, scale_height=224)`, convert; spdl 0.8.0) with the resize of that
  flow, which pads and is bicubic;
* its pixels are those of Pillow's antialiased resize: mean difference at most 0.5 level, 99.9th percentile at most 4.

The claim is judged with the kernels that this processor gets, which the outcome names. Reported beside it: the ratio
with each of the kernels that the processor can run, since other processors get no better ones; the same for a bilinear
stretch, which costs the reference less; and how close it all comes to libjpeg-turbo's bare decoding, which neither
reads nor resizes.

Run it as `python benchmarks/image_decode.py [--rounds N] [--json FILE] [--photos DIR] [--reference PYTHON]`. Without
--reference, the reference is installed into an environment of its own in the user's cache.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from PIL import Image

from spdl.cli._console import Console
from spdl.cli._peers import PeerUnavailable, reference_environment
from spdl.cli._photos import demo_photos
from spdl.cli._provenance import provenance
from spdl.io import load_image_batch, to_numpy
from spdl.io._lazy import native

WORK = Path(__file__).with_name("_image_work.py")
STRETCH, PAD = "stretch-bilinear", "pad-bicubic"
BARE = "libjpeg-turbo 500x375, bare decode"
REFERENCE = "spdl 0.8.0, seed flow"
RATIO_MARK = 2.5
MEAN_MARK, PERCENTILE_MARK = 0.5, 4.0
COMPARED_PHOTOS = 64

Contender = tuple[tuple[str, ...], str, str]
"""The command of an interpreter, the contender's name in `_image_work.py`, and the resize."""


def batch_row(kernels: str, resize: str) -> str:
    """Name our batch call in the table."""
    return f"spdl-turbo, batch call, {kernels}, {resize}"


def contenders(reference: tuple[str, ...] | None) -> dict[str, Contender]:
    """Name what is to be measured."""
    own = (sys.executable,)
    rows: dict[str, Contender] = {BARE: (own, "bare", STRETCH)}
    for resize in (STRETCH, PAD):
        for kernels in native.kernel_names():
            rows[batch_row(kernels, resize)] = (own, f"batch:{kernels}", resize)
        rows[f"spdl-turbo, seed flow, {resize}"] = (own, "seed-flow", resize)
        rows[f"Pillow, {resize}"] = (own, "pillow", resize)
        if reference is not None:
            rows[f"{REFERENCE}, {resize}"] = (reference, "seed-flow", resize)
    return rows


def measure_once(contender: Contender, folder: Path) -> dict[str, float]:
    """Run one contender in a process of its own."""
    interpreter, name, resize = contender
    command = [*interpreter, str(WORK), name, resize, str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def difference_from_pillow(folder: Path) -> dict[str, float]:
    """Compare pixels with Pillow's antialiased bilinear resize of the same files."""
    paths = sorted(str(path) for path in folder.glob("*.jpg"))[:COMPARED_PHOTOS]
    ours = to_numpy(load_image_batch(paths, width=224, height=224, mode="stretch", interpolation="bilinear"))
    differences = []
    for path, image in zip(paths, ours, strict=True):
        with Image.open(path) as file:
            theirs = np.asarray(file.convert("RGB").resize((224, 224), Image.Resampling.BILINEAR))
        differences.append(np.abs(image.astype(int) - theirs))
    return {
        "photos": len(paths),
        "mean": float(np.mean(differences)),
        "percentile_99_9": float(np.percentile(differences, 99.9)),
        "max": float(np.max(differences)),
    }


def find_reference(given: Path | None, console: Console) -> tuple[tuple[str, ...] | None, str | None]:
    """Return the command of the reference's interpreter, or why there is none."""
    if given is not None:
        # Isolated: a PYTHONPATH that leads to our modules would make it run us in its name.
        return (str(given), "-I"), None
    try:
        return reference_environment(console).command, None
    except PeerUnavailable as error:
        return None, str(error)


def report(medians: dict[str, dict[str, float]]) -> None:
    """Print the table, best first."""
    bare = medians[BARE]["images_per_cpu_second"]
    for name, row in sorted(medians.items(), key=lambda item: -item[1]["images_per_cpu_second"]):
        speed = row["images_per_cpu_second"]
        print(
            f"{name:55} {speed:7.0f} images/CPU-s  {speed / bare:5.2f} of bare decode  {row['peak_mib']:5.0f} MiB peak"
        )


def judge(medians: dict[str, dict[str, float]], difference: dict[str, float]) -> dict[str, Any]:
    """Hold the medians against the claims."""
    judged = native.kernel_names()[0]
    verdict: dict[str, Any] = {
        "judged_kernels": judged,
        "pixels_hold": difference["mean"] <= MEAN_MARK and difference["percentile_99_9"] <= PERCENTILE_MARK,
    }
    for resize in (STRETCH, PAD):
        reference = medians.get(f"{REFERENCE}, {resize}")
        for kernels in native.kernel_names():
            ours = medians[batch_row(kernels, resize)]["images_per_cpu_second"]
            verdict[f"share_of_bare_decode, {kernels}, {resize}"] = ours / medians[BARE]["images_per_cpu_second"]
            if reference is not None:
                verdict[f"ratio_to_reference, {kernels}, {resize}"] = ours / reference["images_per_cpu_second"]
    ratio = verdict.get(f"ratio_to_reference, {judged}, {PAD}", RATIO_MARK)
    verdict["holds"] = verdict["pixels_hold"] and ratio >= RATIO_MARK
    return verdict


def main() -> int:
    """Run the rounds, print and write the outcome; the exit status says whether the claims hold."""
    parser = argparse.ArgumentParser(description="Measure loading JPEG photos.")
    parser.add_argument("--rounds", type=int, default=5, help="processes per contender (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument("--photos", type=Path, help="a folder of JPEG files (default: the demo's)")
    parser.add_argument("--reference", type=Path, metavar="PYTHON", help="an interpreter that has spdl 0.8.0")
    options = parser.parse_args()

    console = Console()
    folder = options.photos or demo_photos(console)
    reference, missing = find_reference(options.reference, console)
    if missing:
        print(f"without the reference: {missing}")
    rows = contenders(reference)
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in rows}
    for _ in range(options.rounds):
        for name, contender in rows.items():
            rounds[name].append(measure_once(contender, folder))
    medians = {
        name: {key: median(each[key] for each in results) for key in results[0]} for name, results in rounds.items()
    }
    difference = difference_from_pillow(folder)
    verdict = judge(medians, difference)
    report(medians)
    print(f"difference from Pillow: {difference}")
    for key, value in verdict.items():
        print(f"{key}: {round(value, 3) if isinstance(value, float) else value}")
    if options.json:
        result = {
            "provenance": provenance(),
            "reference_missing": missing,
            "difference_from_pillow": difference,
            "verdict": verdict,
            "medians": medians,
            "rounds": rounds,
        }
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if verdict["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
