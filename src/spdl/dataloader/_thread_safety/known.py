"""Tables of libraries: functions, methods and objects that threads may share.

The functions of NumPy, PyTorch, Pillow and Python were tried with arrays, tensors, lists and objects, in Python 3.11,
NumPy 2.4, PyTorch 2.13, torchvision 0.28, Pillow 13, datasets 5.2 and pyarrow 26. Functions that draw from the
generators of the whole program are left out.
"""

from __future__ import annotations

import abc
import enum
import functools
import logging
import operator
import sys
import types
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import spdl.io
from spdl.dataloader._thread_safety.values import Args, Held, Thing, Unproven, Value, full_name

if TYPE_CHECKING:
    import ast

    from spdl.dataloader._thread_safety.search import CodeSearch


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
    "operator": "eq ne lt le gt ge contains not_ truth index",
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
        "accumulate batched chain combinations compress count cycle dropwhile islice pairwise permutations product "
        "starmap takewhile zip_longest"
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
    "spdl.io": " ".join(name for name in spdl.io.__all__ if name[0].islower()),
}

_TABLES: dict[Kind, dict[str, str]] = {"fresh": _FRESH, "shallow": _SHALLOW, "element": _ELEMENT, "alias": _ALIAS}

# The result is not written to the third argument of these.
_THREE = {"where", "interp", "tensor", "clip", "clamp", "pad", "adjust_hue", "select", "normalize"}


class KnownFunctions:
    """Finds functions by identity in the modules that are imported by now. One that was replaced is not known."""

    def __init__(self) -> None:
        self._kinds: dict[int, tuple[Any, Kind]] = {}
        self._modules = 0

    def _look(self) -> None:
        for kind, table in _TABLES.items():
            for module_name, names in table.items():
                module, package = sys.modules.get(module_name), module_name.partition(".")[0]
                for name in names.split():
                    function = getattr(module, name, None)
                    if function is not None and _is_of(str(getattr(function, "__module__", None) or package), package):
                        # It is kept, so that nothing else gets its identity.
                        self._kinds[id(function)] = function, kind

    def kind_of(self, function: Any) -> Kind | None:
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
    """Return whether a function of a module belongs to a package, and was not put there by other code."""
    if home.partition(".")[0] == package:
        return True
    first = home.partition(".")[0].lstrip("_")
    return first in sys.stdlib_module_names or f"_{first}" in sys.stdlib_module_names or first in {"cv2", package}


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# They only read, and return something new. First methods of numbers, texts and bytes, then of arrays.
TEXT_COPYING = words(
    # Numbers, texts and bytes.
    "as_integer_ratio bit_count bit_length capitalize casefold center count decode encode endswith "
    "expandtabs find format format_map fromhex hex index is_integer isalnum isalpha isascii isdecimal isdigit "
    "isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip maketrans "
    "partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines "
    "startswith strip swapcase title to_bytes from_bytes translate upper zfill tobytes "
    # Patterns and matches.
    "match search fullmatch sub subn findall finditer group groups groupdict start end span expand "
    # Slices and layouts of bytes.
    "indices unpack unpack_from iter_unpack pack "
    # Paths.
    "as_posix as_uri exists is_dir is_file is_symlink is_absolute iterdir glob rglob joinpath read_bytes read_text "
    "relative_to resolve absolute stat with_name with_stem with_suffix expanduser samefile is_relative_to open "
    # Dates.
    "fromtimestamp fromisoformat strptime timestamp isoformat strftime date time weekday isoweekday total_seconds "
    "toordinal timetuple utcoffset "
)
ARRAY_COPYING = words(
    "all any argmax argmin argsort astype clone copy cumprod cumsum dot item max mean min nonzero prod repeat "
    "round searchsorted std sum take tolist trace var abs add amax amin bincount bmm ceil clamp clip div dim eq "
    "exp flip floor gather ge gt index_select is_contiguous is_floating_point isfinite isinf isnan le log log1p "
    "lt masked_fill masked_select matmul median mm mul ndimension ne neg norm numel pow relu repeat_interleave "
    "roll rsqrt sigmoid sign sin cos size softmax log_softmax sqrt square sub tanh tile topk tril "
    "triu unique where new_zeros new_ones new_empty new_full new_tensor index_fill scatter logical_not "
    "logical_and logical_or element_size stride storage_offset nelement is_complex get_device ptp choose compress "
    # Tables of pyarrow, and columns.
    "as_py to_pylist to_pydict to_numpy column slice field equals num_chunks"
)

COPYING = TEXT_COPYING | ARRAY_COPYING

# Of texts, those that call methods of their arguments.
CALLING = words("format format_map join translate")

# Of containers, those that compare nothing.
NOT_COMPARING = words("keys values items copy __iter__ __len__ __reversed__")

# They only read, and return a new container of what the object holds.
SHALLOW_COPYING = words(
    "copy items keys values union intersection difference symmetric_difference most_common elements"
)

# They only read, and return something that the object holds.
LOOKING = words("get isdisjoint issubset issuperset __getitem__ __len__ __contains__ __iter__")

# They only read, and what they return may share the memory of the object.
ALIASING = words(
    "bool byte char chunk contiguous cpu cuda detach diagonal double expand expand_as flatten float half bfloat16 "
    "int long movedim mT moveaxis narrow numpy permute ravel reshape reshape_as resolve_conj select short split "
    "squeeze swapaxes swapdims t to to_dense toreadonly transpose type type_as unbind unflatten unfold unsqueeze "
    "view view_as tensor_split broadcast_to refine_names rename pin_memory toarray todense cast __array__ "
    "__dlpack__"
)

READING = COPYING | SHALLOW_COPYING | LOOKING | ALIASING

# They change their object, and no argument.
CHANGING = words(
    # Containers and files.
    "add append appendleft clear close discard extend extendleft insert pop popitem popleft remove reverse rotate "
    "setdefault sort update difference_update intersection_update symmetric_difference_update move_to_end subtract "
    "flush getvalue getbuffer read read1 readable readline readlines seek seekable tell truncate write writelines "
    "writable fileno extractfile extract getmember getmembers getnames next namelist infolist getinfo digest "
    "hexdigest writerow writerows __enter__ __exit__ __setitem__ __delitem__ __next__ "
    # Arrays and tensors.
    "fill itemset put resize setflags partition add_ addcmul_ addcdiv_ clamp_ clip_ copy_ div_ fill_ index_add_ "
    "index_copy_ index_fill_ masked_fill_ masked_scatter_ mul_ neg_ pow_ relu_ requires_grad_ round_ "
    "scatter_ scatter_add_ sub_ zero_ abs_ exp_ log_ sqrt_ floor_ ceil_ "
    "squeeze_ unsqueeze_ transpose_ t_ tril_ triu_ sigmoid_ tanh_ share_memory_ resize_ "
    # Images of Pillow.
    "alpha_composite convert crop draft enhance entropy filter frombytes getbands getbbox "
    "getchannel getcolors getdata getexif getextrema getpalette getpixel histogram load paste point putalpha "
    "putdata putpalette putpixel quantize reduce rotate save thumbnail tobitmap transform transpose verify arc "
    "chord ellipse line multiline_text pieslice polygon rectangle rounded_rectangle text textbbox textlength"
)

# They change a generator of random numbers, and draw from one of the whole program if they are another's.
DRAWING = words(
    "manual_seed seed random randint uniform choice choices sample gauss normal standard_normal integers permutation "
    "rand randn random_sample randrange normalvariate triangular betavariate expovariate getrandbits beta binomial "
    "poisson exponential gamma laplace lognormal multinomial dirichlet multivariate_normal jumped spawn"
)

# Of these, the ones after which the object holds what it was given.
STORING = words("add append appendleft extend extendleft insert setdefault update subtract put __setitem__")

# They change their object, and what they are given.
CHANGING_ARGUMENTS = words("readinto readinto1 shuffle permuted")

METHODS = READING | CHANGING | DRAWING | CHANGING_ARGUMENTS

# They take care of threads themselves, and so do the handlers that are listed.
LOGGER_METHODS = words("debug info warning error exception critical log isEnabledFor")


_LOGGERS = {"logging.Logger", "logging.RootLogger"}

# They keep nothing that code could read, unless they write to a user's stream.
_PARTS_OF_LOGGERS = {
    *("logging.NullHandler", "logging.StreamHandler", "logging._StderrHandler", "logging.FileHandler"),
    *("logging.handlers.RotatingFileHandler", "logging.handlers.TimedRotatingFileHandler"),
    *("logging.Formatter", "logging.Filter", "logging.LogRecord"),
}

# By these, datasets of libraries give items.
ITEM_METHODS = frozenset({"__getitem__", "__getitems__"})

# They make each item from a table or a file that never changes.
_DATASETS = {"datasets.arrow_dataset.Dataset", "spdl.source._record_source.Records"}

# Transforms that draw no random numbers and keep nothing, in torchvision.transforms and torchvision.transforms.v2.
_TRANSFORMS = words(
    "Resize CenterCrop Normalize ToTensor PILToTensor ToImage ToDtype ConvertImageDtype ToPILImage ToPureTensor "
    "Grayscale Pad FiveCrop TenCrop LinearTransformation RGB ClampBoundingBoxes ConvertBoundingBoxFormat"
)
_IN_TURN = words("Compose Sequential")

# Modules of torch.nn without parameters that training changes, or whose forward keeps nothing.
_MODULES = words("ReLU Identity Sigmoid Tanh GELU SiLU Softmax Flatten Unflatten LeakyReLU ELU Linear")

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)

_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.ModuleType,
    functools.partial,
    operator.itemgetter,
)
_OTHERS = {
    *_LOGGERS,
    "types.SimpleNamespace",
    "numpy.ufunc",
    "numpy._ArrayFunctionDispatcher",
}


def is_known_object(thing: Thing) -> bool:
    """Return whether a library may be given the object: it does not change it, and threads may share it."""
    if not isinstance(thing, Held):
        return False
    return (
        issubclass(thing.kind, _FUNCTIONS)
        or full_name(thing.kind) in _OTHERS
        or is_class(thing.kind)
        or _is_transform(thing.kind)
        or is_library_dataset(thing.kind)
    )


def is_class(kind: type) -> bool:
    """Return whether objects of the class are classes, and their own class has no code of a user."""
    return kind in {type, abc.ABCMeta, enum.EnumType} or (
        issubclass(kind, type) and kind.__module__ in {"typing", "torch._C"}
    )


def is_logger(kind: type) -> bool:
    return full_name(kind) in _LOGGERS


def check_logger(held: Held) -> None:
    """Refuse loggers whose messages reach user code: a handler, a filter, a formatter or a stream."""
    for it in held.objects:
        logger: logging.Logger | None = it
        parts: list[Any] = [logging.getLogRecordFactory()]
        while logger is not None:
            parts += [logger, *logger.filters, *logger.handlers]
            logger = logger.parent if logger.propagate else None
        for handler in [part for part in parts if isinstance(part, logging.Handler)]:
            parts += [*handler.filters, handler.formatter or logging.Formatter()]
            if isinstance(handler, logging.StreamHandler):
                check_output(handler.stream)
        for part in parts:
            name = full_name(part if isinstance(part, type) else type(part))
            replaced = any(isinstance(getattr(type(part), it, None), types.FunctionType) for it in vars(part))
            if name not in _LOGGERS | _PARTS_OF_LOGGERS or replaced:
                raise Unproven(f"messages of `{held.path}` come to a {name}, whose code is not looked at")


def check_output(stream: Any) -> None:
    """Refuse a stream whose class is the user's, since it could keep what is written."""
    kind = type(stream)
    if isinstance(getattr(kind, "write", None), types.FunctionType):
        raise Unproven(f"what is written goes to a {full_name(kind)}, whose code is not looked at")


def is_library_dataset(kind: type) -> bool:
    """Return whether the class is one of a library's datasets, which any number of threads may read."""
    own = any(full_name(base) in _DATASETS for base in kind.__mro__)
    return own and kind.__module__.startswith(("datasets.", "spdl."))


def item_of_library_dataset(search: CodeSearch, held: Held, node: ast.AST) -> Value:
    """Return what a dataset of a library gives: something new, or the result of a user's function."""
    made = search.made(node)
    for it in held.objects:
        for name, function in _functions_of(it):
            found = search.call(search.objects.value_of([function], f"{held.path}.{name}"), Args((made,)), node)
            made |= found
    return made


def _functions_of(dataset: Any) -> list[tuple[str, Any]]:
    if hasattr(dataset, "format") and dataset.format["type"] == "custom":
        return [("transform", dataset.format["format_kwargs"]["transform"])]
    if type(dataset).__name__ == "MappedRecords":
        # Of one that maps another's records, both functions.
        source, function = dataset._source, dataset._function  # noqa: SLF001 - the package's own.
        return [*_functions_of(source), ("function", function)]
    return []


def _is_transform(kind: type) -> bool:
    if kind.__module__.startswith("torchvision.transforms"):
        return kind.__name__ in _TRANSFORMS | _IN_TURN | {"Lambda"}
    return kind.__module__.startswith("torch.nn.modules") and kind.__name__ in _MODULES | _IN_TURN


def call_known_object(search: CodeSearch, it: Any, held: Held, args: Args, node: ast.AST) -> Value | None:
    """Return what a call of a transform or a module of torch returns, or None if it is neither."""
    kind = type(it)
    module = any(full_name(base) == "torch.nn.modules.module.Module" for base in kind.__mro__)
    if module and any(vars(it).get(name) for name in _HOOKS):
        raise Unproven(f"`{held.path}` has hooks, which are not looked at")
    if _is_transform(kind):
        if kind.__name__ in _IN_TURN:
            return _call_in_turn(search, it, held, args, node)
        if kind.__name__ == "Lambda":
            function = search.objects.value_of([it.lambd], f"{held.path}.lambd")
            return search.call(function, args, node) | args.all()
        if getattr(it, "inplace", False):
            raise Unproven(f"`{held.path}` changes its input in place")
        return search.made(node, args.all()) | args.all()
    if module and type(it).__call__.__module__ == "torch.nn.modules.module":
        forward = search.attribute(frozenset([held]), "forward", node)
        return search.call(forward, args, node)
    return None


def _call_in_turn(search: CodeSearch, it: Any, held: Held, args: Args, node: ast.AST) -> Value:
    parts = it.transforms if hasattr(it, "transforms") else list(it)
    value = args.all()
    for index, part in enumerate(parts):
        function = search.objects.value_of([part], f"{held.path}.transforms[{index}]")
        value = search.call(function, type(args)((value,)), node)
    return value
