"""The rows of the benchmark of images: work, contenders and claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from _engine_rows import OURS, REFERENCE, Claim
from _image_environments import FREE_THREADED, OWN, WHEEL

# With one thread, other load on the machine costs time but no CPU time.
ALONE, TOGETHER = "images_per_cpu_second", "images_per_second"

BARE = "libjpeg-turbo alone"
OUR_WHEEL = f"{OURS}, wheel"
AVX512, AVX2 = "avx512", "avx2"

STRETCH, PAD = "stretch-bilinear", "pad-bicubic"
WORDS = {STRETCH: "stretch, bilinear, antialiased", PAD: "pad, bicubic, antialiased"}
NOT_ANTIALIASED = "not antialiased"
NO_RESIZE, AREA, ALIASED = "full size", "stretch, area average", f"stretch, bilinear, {NOT_ANTIALIASED}"

Photos = Literal["small", "large", "png", "webp", "webp-lossless", "avif", "jpeg2000", "tiff", "gif", "bmp", "pnm"]


@dataclass(frozen=True)
class Contender:
    """A program that does a row's work.

    Attributes:
        environment: The environment that it runs in, by its name in `_image_environments`.
        work: The work that it does, in the form that `_images_work` takes.
        resize: The way it resizes, in words.
        workers: The numbers of workers that are tried. The best one counts.
    """

    environment: str
    work: dict[str, Any]
    resize: str
    workers: tuple[int, ...] = (1,)


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        title: A description of the row.
        figure: The figure that is shown, and by which the best number of workers is chosen.
        contenders: The contenders by name.
        claims: The claims that the outcome is judged by.
        photos: The demo's photos (500x375), photos four times as large (1000x750), or some of the demo's in another
            format.
        cores: With fewer cores, the row is left out.
    """

    title: str
    figure: str
    contenders: dict[str, Contender]
    claims: tuple[Claim, ...] = ()
    photos: Photos = "small"
    cores: int = 1


def ours(
    kind: str, environment: str = OWN, *, resize: str = STRETCH, workers: tuple[int, ...] = (1,), **work: Any
) -> Contender:
    """Return this package as a contender."""
    return Contender(environment, {"work": f"ours.{kind}", "resize": resize} | work, WORDS[resize], workers)


def one_thread(environment: str = OWN, images: int = 1536, **work: Any) -> Contender:
    """Return this package or the reference on one thread. `flow` is the batch call or image by image."""
    return ours("one_thread", environment, images=images, **({"flow": "batch"} | work))


def at_least(mark: float | None, of: str, beside: str, figure: str = ALONE) -> Claim:
    """Claim that one figure is at least so many times another one."""
    return Claim(figure, "at least", mark, beside, of)


BARE_DECODE = Contender(OWN, {"work": "bare.one_thread", "images": 1536}, NO_RESIZE)


def decode() -> Row:
    """Compare the batch call with libjpeg-turbo alone."""
    marks = {
        (OWN, OURS, AVX512): 0.9,
        (OWN, OURS, AVX2): 0.85,
        (WHEEL, OUR_WHEEL, AVX512): 1.1,
        (WHEEL, OUR_WHEEL, AVX2): 1.05,
    }
    contenders, claims = {BARE: BARE_DECODE}, []
    for (environment, name, kernels), mark in marks.items():
        contenders[f"{name}, {kernels}"] = one_thread(environment, kernels=kernels, sources="memory")
        claims.append(at_least(mark, f"{name}, {kernels}", BARE))
    files = f"{OURS}, {AVX512}, from files"
    contenders[files] = one_thread(kernels=AVX512)
    claims.append(at_least(None, files, BARE))
    contenders[REFERENCE] = one_thread("reference", 512, flow="seed", sources="memory")
    return Row("a batch in one call, from memory, on one thread", ALONE, contenders, tuple(claims))


def inexact() -> Row:
    """Compare the resize of planes with libjpeg-turbo alone and with the resize of pixels."""
    contenders, claims = {BARE: BARE_DECODE}, []
    for environment, name, mark in ((OWN, OURS, None), (WHEEL, OUR_WHEEL, 1.4)):
        for kernels in (AVX512, AVX2):
            loose, exact = f"{name}, {kernels}", f"{name}, {kernels}, exact"
            contenders[loose] = one_thread(environment, kernels=kernels, sources="memory", exact=False)
            contenders[exact] = one_thread(environment, kernels=kernels, sources="memory")
            claims += [at_least(mark if kernels == AVX512 else None, loose, BARE), at_least(None, loose, exact)]
    return Row("a batch in one call with `exact=False`, on one thread", ALONE, contenders, tuple(claims))


def png() -> Row:
    """Compare PNGs with Pillow and OpenCV."""
    opencv = {"work": "opencv.one_thread", "images": 256, "interpolation": "area"}
    contenders = {
        OURS: one_thread(images=384, sources="memory"),
        OUR_WHEEL: one_thread(WHEEL, images=384, sources="memory"),
        "Pillow": Contender(OWN, {"work": "pillow.one_thread", "images": 192}, WORDS[STRETCH]),
        "OpenCV": Contender("opencv", opencv, AREA),
        f"OpenCV, {NOT_ANTIALIASED}": Contender("opencv", opencv | {"interpolation": "linear"}, ALIASED),
    }
    peers = {"Pillow": 2.0, "OpenCV": None, f"OpenCV, {NOT_ANTIALIASED}": None}
    claims = [at_least(mark, name, peer) for name in (OURS, OUR_WHEEL) for peer, mark in peers.items()]
    return Row("PNG: a batch in one call, from memory, on one thread", ALONE, contenders, tuple(claims), photos="png")


def other(title: str, photos: Photos) -> Row:
    """Compare photos of another format with Pillow, which has the same libraries for most."""
    contenders = {
        OURS: one_thread(images=192, sources="memory"),
        OUR_WHEEL: one_thread(WHEEL, images=192, sources="memory"),
        "Pillow": Contender(OWN, {"work": "pillow.one_thread", "images": 192}, WORDS[STRETCH]),
    }
    claims = tuple(at_least(1.0, name, "Pillow") for name in (OURS, OUR_WHEEL))
    return Row(f"{title}: a batch in one call, from memory, on one thread", ALONE, contenders, claims, photos=photos)


def scaled() -> Row:
    """Measure DCT scaling."""
    bare = {"work": "bare.one_thread", "images": 384}
    half = f"{BARE}, at half the size"
    contenders = {BARE: Contender(OWN, bare, NO_RESIZE), half: Contender(OWN, bare | {"fraction": 2}, "half size")}
    claims = []
    for environment, name in ((OWN, OURS), (WHEEL, OUR_WHEEL)):
        exact = f"{name}, exact"
        contenders[name] = one_thread(environment, 512, exact=False, sources="memory")
        contenders[exact] = one_thread(environment, 384, exact=True, sources="memory")
        claims.append(at_least(1.25, name, exact))
    return Row("the same with `exact=False`, from 1000x750", ALONE, contenders, tuple(claims), photos="large")


def image_by_image() -> Row:
    """Compare image by image, with ours and with the reference, to one batch call."""
    contenders = {BARE: BARE_DECODE}
    claims = []
    for resize in (PAD, STRETCH):
        words = "" if resize == PAD else ", stretch"
        contenders |= {
            f"{OURS}{words}": one_thread(flow="seed", resize=resize, images=1024),
            f"{OUR_WHEEL}{words}": one_thread(WHEEL, flow="seed", resize=resize, images=1024),
            f"{REFERENCE}{words}": one_thread("reference", 384, flow="seed", resize=resize),
        }
        # The seed pads, as is the default, so the mark is for padding.
        mark = 2.7 if resize == PAD else None
        claims += [at_least(mark, f"{name}{words}", f"{REFERENCE}{words}") for name in (OURS, OUR_WHEEL)]
    call = f"{OURS}, load_image_batch"
    contenders[call] = one_thread(resize=PAD, images=1024)
    claims.append(at_least(2.5, call, REFERENCE))
    return Row("image by image: demux, decode with a filter, convert, on one thread", ALONE, contenders, tuple(claims))


def normalised() -> Row:
    """Compare planes of floats with bytes."""
    contenders, claims = {}, []
    for environment, name in ((OWN, OURS), (WHEEL, OUR_WHEEL)):
        plain = f"{name}, uint8 NHWC"
        contenders[name] = one_thread(environment, normalised=True)
        contenders[plain] = one_thread(environment)
        claims.append(at_least(1 / 1.08, name, plain))
    return Row("a batch in one call, float32, NCHW, with mean and std", ALONE, contenders, tuple(claims))


def loaders(workers: tuple[int, ...]) -> Row:
    """Compare whole loaders, each at its best."""
    contenders = {
        BARE: Contender(OWN, {"work": "bare.loader", "images": 1536}, NO_RESIZE, workers),
        OURS: ours("loader", flow="batch", workers=workers, images=1536),
        OUR_WHEEL: ours("loader", WHEEL, flow="batch", workers=workers, images=1536),
        REFERENCE: ours("loader", "reference", flow="seed", workers=workers, images=768),
        "OpenCV, threads": opencv("area", AREA, workers, images=1536),
        f"OpenCV, threads, {NOT_ANTIALIASED}": opencv("linear", ALIASED, workers, images=1536),
        "FFCV": Contender("ffcv", {"work": "ffcv_loader.loader", "images": 1536}, AREA, workers),
        "PyTorch DataLoader, Pillow": Contender(
            "torch", {"work": "torch_loader.loader", "resize": STRETCH, "images": 768}, WORDS[STRETCH], workers
        ),
        "DALI, CPU": dali(WORDS[STRETCH], workers, antialias=True),
        f"DALI, CPU, {NOT_ANTIALIASED}": dali(ALIASED, workers, antialias=False),
    }
    claims = [at_least(None, OURS, name, TOGETHER) for name in contenders if name not in (OURS, OUR_WHEEL)]
    return Row("whole loaders", TOGETHER, contenders, tuple(claims))


def opencv(interpolation: str, resize: str, workers: tuple[int, ...], **work: Any) -> Contender:
    """Return OpenCV in a pool of threads as a contender."""
    return Contender("opencv", {"work": "opencv.loader", "interpolation": interpolation} | work, resize, workers)


def dali(resize: str, workers: tuple[int, ...], **work: Any) -> Contender:
    """Return DALI on the CPU as a contender."""
    return Contender("dali", {"work": "dali.loader", "images": 512} | work, resize, workers)


def random_crop(workers: tuple[int, ...]) -> Row:
    """Compare random crops and flips in whole loaders."""
    crop = {"crop": True}
    contenders = {
        OURS: ours("loader", flow="batch", workers=workers, images=1536, random=True),
        OUR_WHEEL: ours("loader", WHEEL, flow="batch", workers=workers, images=1536, random=True),
        "FFCV": Contender("ffcv", {"work": "ffcv_loader.loader", "images": 1536} | crop, AREA, workers),
        "OpenCV, threads": opencv("area", AREA, workers, images=1536, **crop),
        f"OpenCV, threads, {NOT_ANTIALIASED}": opencv("linear", ALIASED, workers, images=1536, **crop),
        "DALI, CPU": dali(WORDS[STRETCH], workers, antialias=True, **crop),
        f"DALI, CPU, {NOT_ANTIALIASED}": dali(ALIASED, workers, antialias=False, **crop),
        "PyTorch DataLoader, torchvision": Contender(
            "torchvision", {"work": "torch_loader.loader", "images": 768} | crop, WORDS[STRETCH], workers
        ),
    }
    # The mark is for the same resize. Contenders without antialiasing are shown, but not judged.
    marks = {name: None if NOT_ANTIALIASED in name else 1.5 for name in contenders if name not in (OURS, OUR_WHEEL)}
    claims = [at_least(mark, name, peer, TOGETHER) for name in (OURS, OUR_WHEEL) for peer, mark in marks.items()]
    return Row("random crop (scale 0.08 to 1) and flip, whole loaders", TOGETHER, contenders, tuple(claims))


def kernel() -> Row:
    """Compare the resize alone."""
    pillow = {"work": "kernel.pillow", "calls": 2000}
    contenders = {
        f"{OURS}, {name}": Contender(OWN, {"work": "kernel.ours", "kernels": name, "calls": 6000}, WORDS[STRETCH])
        for name in (AVX512, AVX2)
    }
    near = f"{OURS}, {AVX2}, exact=False"
    contenders |= {
        near: Contender(OWN, {"work": "kernel.ours", "kernels": AVX2, "calls": 6000, "exact": False}, WORDS[STRETCH]),
        "Pillow-SIMD, AVX2": Contender("pillow-simd", pillow, WORDS[STRETCH]),
        "Pillow": Contender(OWN, pillow | {"calls": 300}, WORDS[STRETCH]),
    }
    claims = tuple(
        Claim("microseconds", "at most", 1.1, "Pillow-SIMD, AVX2", name)
        for name in (f"{OURS}, {AVX512}", f"{OURS}, {AVX2}", near)
    )
    return Row("the resize alone, 712x712 to 224x224, RGB in memory", "microseconds", contenders, claims)


def memory() -> Row:
    """Measure resident memory while an endless stream is loaded."""
    contenders = {
        OURS: ours("stream", flow="batch", resize=PAD, workers=(2,), seconds=10),
        f"{OURS}, image by image": ours("stream", flow="seed", resize=PAD, workers=(2,), seconds=10),
        REFERENCE: ours("stream", "reference", flow="seed", resize=PAD, workers=(2,), seconds=10),
    }
    mine = (OURS, f"{OURS}, image by image")
    claims = [Claim("growth", "at most", 1.02, None, name) for name in mine]
    claims += [Claim("peak_mib", "at most", 1, REFERENCE, name) for name in mine]
    return Row("an endless stream, 2 threads, resident memory", "peak_mib", contenders, tuple(claims))


def ticks() -> Row:
    """Measure how long one call delays another thread."""
    contenders = {OURS: Contender(OWN, {"work": "ticks.longest_wait"}, WORDS[PAD])}
    claim = Claim("excess_ms", "at most", 5)
    return Row(
        "longest wait of a thread ticking every millisecond beside one call for 256 images", "excess_ms", contenders,
        (claim,),
    )  # fmt: skip


def callers() -> Row:
    """Measure many callers without a GIL."""
    contenders = {
        OURS: ours("callers", FREE_THREADED, workers=(8,), seconds=4),
        BARE: Contender(FREE_THREADED, {"work": "bare.callers", "seconds": 4}, NO_RESIZE, (8,)),
    }
    return Row("8 callers on 3.13t", "scaling", contenders, (at_least(0.9, OURS, BARE, "scaling"),))


def many_threads() -> Row:
    """Measure 16 threads on 16 cores."""
    contenders = {
        OURS: ours("callers", workers=(16,), seconds=4),
        BARE: Contender(OWN, {"work": "bare.callers", "seconds": 4}, NO_RESIZE, (16,)),
    }
    claims = (at_least(0.85, OURS, BARE, TOGETHER), at_least(0.95, OURS, BARE, "scaling"))
    return Row("16 threads", TOGETHER, contenders, claims, cores=16)


def rows(cores: float) -> dict[str, Row]:
    """Return all rows. Whole loaders try numbers of workers that suit the number of cores."""
    workers = (1, 2, 4) if cores < 16 else (8, 16, 24)  # noqa: PLR2004 - the number of cores of the last row.
    return {
        "decode": decode(),
        "inexact": inexact(),
        "scaled": scaled(),
        "image-by-image": image_by_image(),
        "png": png(),
        "webp": other("WebP", "webp"),
        "webp-lossless": other("lossless WebP", "webp-lossless"),
        "avif": other("AVIF", "avif"),
        "jpeg2000": other("JPEG 2000", "jpeg2000"),
        "tiff": other("TIFF, deflated", "tiff"),
        "gif": other("GIF", "gif"),
        "bmp": other("BMP", "bmp"),
        "pnm": other("PNM", "pnm"),
        "float": normalised(),
        "loaders": loaders(workers),
        "random-crop": random_crop(workers),
        "kernel": kernel(),
        "memory": memory(),
        "ticks": ticks(),
        "callers": callers(),
        "threads-16": many_threads(),
    }
