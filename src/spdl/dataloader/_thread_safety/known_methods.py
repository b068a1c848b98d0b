"""Methods of classes that are not of Python code, and what they do with their object."""

from __future__ import annotations

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = [
    "ALIASING",
    "ARRAY_COPYING",
    "CHANGING",
    "CHANGING_ARGUMENTS",
    "COPYING",
    "DRAWING",
    "LOGGER_METHODS",
    "LOOKING",
    "METHODS",
    "READING",
    "SHALLOW_COPYING",
    "STORING",
    "TEXT_COPYING",
    "words",
]


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


# They only read, and return something new. First those of numbers, texts and bytes, then those of arrays.
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

# Loggers take care of threads themselves.
LOGGER_METHODS = words("debug info warning error exception critical log isEnabledFor")
