"""The row groups of Parquet files as tables of one schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl.io import FormatError
from spdl.source._shards.parquet_shard import ParquetShard
from spdl.source._shards.row_groups import GroupTables, MakeRoom, Room

if TYPE_CHECKING:
    from spdl.source._shards.parquet import ParquetFiles

Convert: TypeAlias = Callable[[Any, Room], Any]

# Bytes of a value when it is decoded, by its type in the file.
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}


def plain_schema(schema: Any) -> Any:
    """Return a schema whose columns pyarrow can join and take from: no dictionaries within lists, no views."""
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    fields = [field.with_type(_plain(field.type, is_inner=False)) for field in schema]
    return pa.schema(fields, schema.metadata)


def _plain(type_: Any, *, is_inner: bool = True) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    if pa.types.is_dictionary(type_) and is_inner:
        return _plain(type_.value_type)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        make = pa.large_list if pa.types.is_large_list(type_) else pa.list_
        return make(type_.value_field.with_type(_plain(type_.value_type)))
    # Of pyarrow 16 and later.
    if str(type_) in ("string_view", "binary_view"):
        return pa.large_string() if str(type_) == "string_view" else pa.large_binary()
    return type_


def _content(type_: Any) -> Any:
    """Return a type that is the same for all ways to hold the same values: dictionaries, offsets of 32 or 64 bits."""
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    types = pa.types
    if types.is_dictionary(type_):
        return _content(type_.value_type)
    if types.is_list(type_) or types.is_large_list(type_):
        return pa.list_(_content(type_.value_type))
    if types.is_map(type_):
        return pa.map_(_content(type_.key_type), _content(type_.item_type))
    if types.is_struct(type_):
        fields = [type_.field(number) for number in range(type_.num_fields)]
        return pa.struct([(field.name, _content(field.type)) for field in fields])
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(type_, type_)


def decoded_sizes(shards: Sequence[ParquetShard]) -> list[int]:
    """Return about how many bytes each row group with rows takes when it is decoded, as the metadata have it."""
    return [_decoded_size(*place) for place in _places(shards)]


def group_tables(
    shards: Sequence[ParquetShard], convert: Convert, most: int, make_room: MakeRoom = lambda _: None
) -> GroupTables:
    """Return the rows of some files by their positions, as `convert` makes them of the table of each row group."""
    places = _places(shards)
    schema = plain_schema(shards[0].schema)

    def decode(number: int, room: Room) -> Any:
        shard, group = places[number]
        table = shard.read_group(group)
        own = _typed(plain_schema(table.schema), schema)
        _check_like(own, schema, shard, shards[0])
        return convert(cast_table(table, own), room)

    rows = [shard.group_sizes[group] for shard, group in places]
    return GroupTables(decode, rows, decoded_sizes(shards), most, make_room)


def _places(shards: Sequence[ParquetShard]) -> list[tuple[ParquetShard, int]]:
    return [(shard, group) for shard in shards for group, size in enumerate(shard.group_sizes) if size]


def _typed(own: Any, wanted: Any) -> Any:
    """Return a file's schema with the wanted types for columns of nulls, or of empty lists, alone: they have none."""
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    def is_bare(type_: Any) -> bool:
        return bool(pa.types.is_null(type_) or (pa.types.is_list(type_) and pa.types.is_null(type_.value_type)))

    fields = [
        field.with_type(wanted.field(field.name).type) if is_bare(field.type) and field.name in wanted.names else field
        for field in own
    ]
    return pa.schema(fields, own.metadata)


def _check_like(own: Any, schema: Any, shard: ParquetShard, first: ParquetShard) -> None:
    """Raise FormatError unless the columns of a file hold the same values as those of the first file."""
    if own.names != schema.names:
        raise FormatError(
            f"{shard.place} has the columns {', '.join(own.names)}, and {first.place} has "
            f"{', '.join(schema.names)}: say by `columns` which to read"
        )
    for name, found, wanted in zip(schema.names, own.types, schema.types, strict=True):
        if _content(found) != _content(wanted):
            raise FormatError(
                f"{shard.place} has the column {name!r} as {found}, and {first.place} as {wanted}: write them with one "
                "type, or leave the column out by `columns`"
            )


def cast_table(table: Any, schema: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    columns = [
        column if column.type == type_ else column.cast(type_)
        for column, type_ in zip(table.columns, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _decoded_size(shard: ParquetShard, group: int) -> int:
    size = 0
    rows = shard.metadata.row_group(group).num_rows
    for chunk in shard.chunks(group):
        width = _WIDTHS.get(chunk.physical_type)
        values = chunk.num_values
        size += values * width if width else chunk.total_uncompressed_size + 4 * values
        # Which are null, and offsets of nested columns.
        size += values // 8 + (8 * rows if "." in chunk.path_in_schema else 0)
    return int(size * shard.group_sizes[group] // max(rows, 1))


def open_columns(
    files: ParquetFiles, codes: list[str], convert: Convert, most: int, make_room: MakeRoom
) -> GroupTables:
    """As `group_tables`, with some columns as dictionaries, of files that are for this caller alone."""
    for shard in files._shards:  # noqa: SLF001 - as all here, on its behalf.
        shard.as_codes(codes)
    return group_tables(files._shards, convert, most, make_room)  # noqa: SLF001


def check_alike(files: ParquetFiles) -> None:
    """Raise FormatError if the columns of a file that has rows are others than those of the first file."""
    first, *others = files._shards  # noqa: SLF001
    schema = plain_schema(first.schema)
    for shard in others:
        if any(shard.group_sizes):
            _check_like(_typed(plain_schema(shard.schema), schema), schema, shard, first)


def sizes_of(files: ParquetFiles) -> list[int]:
    return decoded_sizes(files._shards)  # noqa: SLF001


def distinct_values(files: ParquetFiles, name: str, type_: Any) -> Any:
    """Return the values of a column in the order in which they come first, without nulls."""
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    found = pa.array([], type_)
    shards = files.select([name])._shards  # noqa: SLF001
    for shard, group in _places(shards):
        shard.as_codes([name])
        for chunk in shard.read_group(group).column(0).chunks:
            leaf = chunk if pa.types.is_dictionary(chunk.type) or not hasattr(chunk, "flatten") else chunk.flatten()
            values = leaf.dictionary if pa.types.is_dictionary(leaf.type) else leaf.unique()
            found = pa.concat_arrays([found, values.cast(type_)]).unique().drop_null()
    return found


def count_nulls(files: ParquetFiles) -> dict[str, int]:
    """Return how many nulls the columns other than lists have, as far as the files' statistics say."""
    found: dict[str, int] = {}
    names = set(files.schema.names)
    for shard, group in _places(files._shards):  # noqa: SLF001
        if shard.group_sizes[group] < shard.metadata.row_group(group).num_rows:
            # The rows with nulls may be those that the filters leave out.
            continue
        for chunk in shard.chunks(group):
            statistics = chunk.statistics
            name = chunk.path_in_schema
            # In a list, an empty one counts as a null.
            if name in names and statistics is not None and statistics.has_null_count and statistics.null_count:
                found[name] = found.get(name, 0) + statistics.null_count
    return found
