"""Functions and classes of libraries that several threads may call at once, and that change none of their arguments.

The functions of NumPy, PyTorch, Pillow and Python were tried with arrays, tensors, lists and objects, in Python 3.11,
NumPy 2.4, PyTorch 2.13, torchvision 0.28, Pillow 13, datasets 5.2 and pyarrow 26. Functions that draw from the
generators of the whole program are left out.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["ANY", "Kind", "KnownFunctions"]

Kind = Literal["fresh", "shallow", "element", "alias"]

# All arguments of a function.
ANY = 1 << 30

# The result holds nothing of the arguments.
_FRESH = {
    "builtins": (
        "abs all any ascii bin bool bytearray bytes callable chr complex divmod float format hash hex id int "
        "isinstance issubclass len object oct open ord pow print range repr round slice str"
    ),
    "math": (
        "acos acosh asin asinh atan atan2 atanh ceil comb copysign cos cosh degrees dist erf exp expm1 fabs factorial "
        "floor fmod frexp fsum gamma gcd hypot isclose isfinite isinf isnan isqrt lcm ldexp log log10 log1p log2 modf "
        "perm pow radians sin sinh sqrt tan tanh trunc"
    ),
    "os": "fspath getenv listdir scandir stat fsencode fsdecode pread",
    "dataclasses": "asdict astuple",
    "os.path": (
        "abspath basename commonpath commonprefix dirname exists expanduser expandvars getsize getmtime isabs isdir "
        "isfile islink join normpath realpath relpath split splitext"
    ),
    "pathlib": "Path PurePath PosixPath PurePosixPath",
    "json": "dumps loads load dump",
    "re": "compile match search fullmatch sub subn split findall finditer escape",
    "struct": "unpack unpack_from pack calcsize iter_unpack",
    "base64": "b64decode b64encode b85decode b85encode b32decode b16decode urlsafe_b64decode urlsafe_b64encode",
    "binascii": "hexlify unhexlify crc32",
    "zlib": "compress decompress crc32 adler32",
    "gzip": "open compress decompress",
    "bz2": "open compress decompress",
    "lzma": "open compress decompress",
    "zipfile": "ZipFile is_zipfile",
    "tarfile": "open",
    "hashlib": "md5 sha1 sha224 sha256 sha384 sha512 blake2b blake2s",
    "io": "BytesIO StringIO open TextIOWrapper BufferedReader",
    "csv": "reader DictReader",
    "pickle": "load loads dumps",
    "copy": "deepcopy",
    "string": "Template",
    "textwrap": "dedent indent fill wrap shorten",
    "unicodedata": "normalize category name",
    "html": "escape unescape",
    "urllib.parse": "quote unquote urlparse urljoin urlsplit parse_qs",
    "datetime": "datetime date time timedelta",
    "time": "time perf_counter monotonic strptime strftime sleep",
    "warnings": "warn",
    "bisect": "bisect bisect_left bisect_right",
    "statistics": "mean stdev pstdev variance",
    "random": "Random",
    "contextlib": "suppress",
    "operator": "eq ne lt le gt ge contains not_ truth index itemgetter attrgetter",
    "ast": "literal_eval",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "uuid": "UUID uuid5",
    "soundfile": "read info",
    "librosa": "load",
    "torchaudio": "load info",
    "imageio": "imread",
    "imageio.v2": "imread",
    "imageio.v3": "imread",
    "tifffile": "imread",
    "skimage.io": "imread",
    "cv2": (
        "imdecode imencode resize cvtColor flip rotate copyMakeBorder GaussianBlur medianBlur blur warpAffine "
        "warpPerspective getRotationMatrix2D getAffineTransform getPerspectiveTransform threshold dilate "
        "erode Canny boundingRect findContours "
    ),
    "scipy.io.wavfile": "read",
    "pandas": "read_csv read_parquet read_json",
    "numpy": (
        "array copy zeros ones full empty zeros_like ones_like full_like empty_like arange linspace logspace geomspace "
        "eye identity tri tril triu vander stack concatenate vstack hstack dstack column_stack row_stack block tile "
        "repeat pad where select choose mean sum std var prod cumsum cumprod nansum nanmean nanstd nanmin nanmax max "
        "min amax amin argmax argmin nanargmax nanargmin argsort sort lexsort unique in1d isin intersect1d union1d "
        "setdiff1d setxor1d bincount searchsorted digitize clip round around dot "
        "vdot matmul inner outer tensordot cross kron nonzero flatnonzero argwhere count_nonzero any all "
        "array_equal array_equiv allclose isclose median percentile quantile average ediff1d gradient interp "
        "convolve correlate corrcoef cov meshgrid indices unravel_index ravel_multi_index load loadtxt genfromtxt "
        "fromfile fromstring fromiter packbits unpackbits roll take take_along_axis compress extract delete insert "
        "append resize partition argpartition iscomplexobj isrealobj isscalar ndim shape size result_type "
        "can_cast promote_types dtype finfo iinfo ptp trapezoid polyfit polyval mgrid ogrid errstate array2string "
        "array_str array_repr sinc i0 unwrap memmap nan_to_num"
    ),
    "numpy.linalg": "norm inv pinv svd solve det eig eigh eigvals eigvalsh qr cholesky lstsq matrix_rank",
    "numpy.fft": "fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn fftfreq rfftfreq fftshift ifftshift",
    "numpy.random": "default_rng RandomState SeedSequence PCG64 Philox",
    "numpy.lib.format": "read_array read_magic",
    "torch": (
        "tensor zeros ones full empty zeros_like ones_like full_like empty_like arange linspace logspace eye stack cat "
        "concat hstack vstack dstack tile repeat_interleave where mean sum std var prod cumsum cumprod max min amax "
        "amin argmax argmin argsort sort topk unique unique_consecutive bincount histc searchsorted bucketize clamp "
        "clip round floor ceil abs exp log log2 log10 log1p sqrt rsqrt sin cos tan tanh sigmoid softmax log_softmax "
        "relu add sub mul div matmul mm bmm dot outer cross kron nonzero any all equal allclose isclose isnan "
        "isinf isfinite eq ne lt le gt ge logical_and logical_or logical_not median quantile diff flip fliplr flipud "
        "roll rot90 gather index_select masked_select take tril triu combinations cdist norm "
        "numel is_tensor is_floating_point load maximum minimum pow square sign clone Generator device dtype "
        "scalar_tensor one_hot logsumexp stft hann_window hamming_window bitwise_and bitwise_or count_nonzero "
        "no_grad inference_mode enable_grad Size"
    ),
    "torch.nn.functional": (
        "one_hot pad interpolate softmax log_softmax normalize relu sigmoid tanh gelu conv1d conv2d avg_pool1d "
        "avg_pool2d max_pool1d max_pool2d adaptive_avg_pool2d grid_sample affine_grid unfold cosine_similarity"
    ),
    "torch.nn.utils.rnn": "pad_sequence pack_sequence pack_padded_sequence pad_packed_sequence",
    "torch.linalg": "norm inv svd solve det eigh qr",
    "torch.fft": "fft ifft rfft irfft fft2 ifft2 rfft2 irfft2",
    "torch.utils.data": "default_collate",
    "torch.utils.data.dataloader": "default_collate",
    "torchvision.io": "read_image decode_image read_file decode_jpeg decode_png",
    "torchvision": "get_image_backend",
    "torchvision.datasets.folder": "default_loader pil_loader",
    "torchvision.ops": "box_convert box_iou box_area clip_boxes_to_image masks_to_boxes",
    "PIL.Image": "open new fromarray frombytes merge blend composite",
    "PIL.ImageOps": (
        "autocontrast colorize crop scale expand equalize fit contain cover pad flip grayscale invert mirror posterize "
        "solarize exif_transpose"
    ),
    "PIL.ImageEnhance": "Brightness Color Contrast Sharpness",
    "PIL.ImageFilter": "GaussianBlur BoxBlur UnsharpMask Kernel MedianFilter MinFilter MaxFilter",
    "PIL.ImageDraw": "Draw",
    "PIL.ImageChops": "add subtract multiply screen difference invert offset",
}

# The result is a new container or iterator of what the arguments hold.
_SHALLOW = {
    "builtins": "dict enumerate filter frozenset iter list map reversed set sorted sum tuple zip",
    "copy": "copy",
    "collections": "OrderedDict Counter defaultdict deque",
    "itertools": (
        "accumulate batched chain combinations compress count cycle dropwhile groupby islice pairwise permutations "
        "product starmap takewhile zip_longest"
    ),
    "functools": "reduce partial",
    "types": "SimpleNamespace",
    "contextlib": "nullcontext",
    "heapq": "nlargest nsmallest merge",
}

# The result is one of what the arguments hold.
_ELEMENT = {"builtins": "next min max", "statistics": "median"}

# The result may be an argument, or share its memory.
_ALIAS = {
    "torchvision.transforms.functional": (
        "convert_image_dtype normalize "
        "to_tensor pil_to_tensor to_pil_image resize center_crop crop resized_crop hflip vflip pad rotate affine "
        "perspective rgb_to_grayscale to_grayscale adjust_brightness adjust_contrast adjust_saturation adjust_hue "
        "adjust_gamma adjust_sharpness gaussian_blur invert posterize solarize autocontrast equalize five_crop "
        "ten_crop get_image_size get_dimensions"
    ),
    "torchvision.transforms.v2.functional": (
        "to_image to_pure_tensor normalize "
        "to_image pil_to_tensor to_pil_image to_dtype resize center_crop crop resized_crop horizontal_flip "
        "vertical_flip hflip vflip pad rotate affine perspective rgb_to_grayscale to_grayscale adjust_brightness "
        "adjust_contrast adjust_saturation adjust_hue adjust_gamma adjust_sharpness gaussian_blur invert posterize "
        "solarize autocontrast equalize five_crop ten_crop get_size convert_bounding_box_format clamp_bounding_boxes "
        "sanitize_bounding_boxes"
    ),
    "builtins": "memoryview",
    "numpy": (
        "histogram histogram2d histogramdd asarray ascontiguousarray asanyarray asfortranarray asarray_chkfinite "
        "atleast_1d atleast_2d atleast_3d "
        "reshape ravel transpose permute_dims squeeze expand_dims moveaxis swapaxes broadcast_to broadcast_arrays "
        "diff einsum rollaxis trim_zeros split array_split vsplit hsplit dsplit flip fliplr flipud rot90 frombuffer "
        "require real imag diag diagonal ndenumerate nditer"
    ),
    "numpy.linalg": "matrix_power",
    "numpy.lib.stride_tricks": "sliding_window_view as_strided",
    "torch": (
        "as_tensor from_numpy frombuffer asarray cartesian_prod einsum meshgrid reshape flatten unflatten squeeze "
        "unsqueeze transpose permute movedim swapaxes narrow chunk split unbind select diagonal broadcast_to "
        "atleast_1d atleast_2d atleast_3d detach t view_as_real real imag"
    ),
    "torch.utils.data": "default_convert",
    "torchvision.tv_tensors": "Image Mask BoundingBoxes Video wrap",
}

# The third argument of these is none that the result is written to.
_THREE = {"where", "interp", "tensor", "clip", "clamp", "pad", "adjust_hue", "select", "normalize"}


class KnownFunctions:
    """Finds functions by identity in the modules that are imported by now. One that was replaced is not known."""

    def __init__(self) -> None:
        self._kinds: dict[int, tuple[Any, Kind]] = {}
        self._modules = 0

    def _look(self) -> None:
        tables: tuple[tuple[Kind, dict[str, str]], ...] = (
            ("fresh", _FRESH),
            ("shallow", _SHALLOW),
            ("element", _ELEMENT),
            ("alias", _ALIAS),
        )
        for kind, table in tables:
            for module_name, names in table.items():
                module = sys.modules.get(module_name)
                if module is not None:
                    self._add(module, module_name, names.split(), kind)
        own = sys.modules.get("spdl.io")
        if own is not None:
            self._add(own, "spdl.io", [name for name in own.__all__ if name[0].islower()], "alias")

    def _add(self, module: ModuleType, module_name: str, names: list[str], kind: Kind) -> None:
        package = module_name.partition(".")[0]
        for name in names:
            function = getattr(module, name, None)
            home = str(getattr(function, "__module__", None) or package)
            if function is not None and _is_of(home, package):
                # It is kept, so that nothing else gets its identity.
                self._kinds[id(function)] = function, kind

    def kind_of(self, function: Any) -> Kind | None:
        """Return what the result of a function is, or None if the function is not known."""
        if isinstance(function, np.ufunc) and getattr(np, function.__name__, None) is function:
            return "fresh"
        if isinstance(function, type) and issubclass(function, np.generic):
            # It may return the same array.
            return "alias"
        if self._modules != len(sys.modules):
            # Following code imports modules.
            self._look()
            self._modules = len(sys.modules)
        found = self._kinds.get(id(function))
        return found[1] if found else None

    @staticmethod
    def readable(function: Any) -> int:
        """Return how many of its first arguments a function only reads. It could write its result to a later one."""
        if isinstance(function, np.ufunc):
            return function.nin
        name = getattr(function, "__name__", "")
        module = str(getattr(function, "__module__", None) or "")
        if not module.startswith(("numpy", "torch", "cv2")):
            return ANY
        return 3 if name in _THREE else 2


def _is_of(home: str, package: str) -> bool:
    """Return whether a function of a module belongs to a package, and was not put there by somebody else."""
    if home.partition(".")[0] == package:
        return True
    first = home.partition(".")[0].lstrip("_")
    return first in sys.stdlib_module_names or f"_{first}" in sys.stdlib_module_names or first in {"cv2", package}
