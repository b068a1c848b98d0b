"""Datasets whose code changes what threads would share: in special methods, descriptors and generated code."""
# mypy: ignore-errors

import dataclasses
import enum
import random
from contextlib import ContextDecorator, contextmanager
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.dataloader.pytorch.thread_kinds.helpers import BUF, LOG, Logs, Sharing


class Accumulator:
    def __init__(self, b):
        self.b = b

    def __iadd__(self, o):
        self.b.append(o)
        return self


class AdditionInPlace(Sharing):
    def __getitem__(self, i):
        a = Accumulator(self.buf)
        a += 1
        return i


class LogsAttributes:
    def __init__(self, t):
        self.t = t

    def __getattr__(self, n):
        LOG.append(n)
        return 3


class GetattrOfAMadeObject(Sharing):
    def __getitem__(self, i):
        return LogsAttributes(1).foo


class LogsAllAttributes:
    def __init__(self):
        self.x = 1

    def __getattribute__(self, n):
        LOG.append(n)
        return object.__getattribute__(self, n)


class Getattribute(Sharing):
    def init(self):
        self.g = LogsAllAttributes()

    def __getitem__(self, i):
        return self.g.x


class SetsItsMethod:
    def __init__(self):
        self.process = self.other

    def process(self, x):
        return x

    def other(self, x):
        LOG.append(x)
        return x


class MethodThatInitSets(Sharing):
    def __getitem__(self, i):
        return SetsItsMethod().process(i)


class MethodSetOnOneObject(Sharing):
    def init(self):
        self.ts = [Logs(), Logs()]
        self.ts[0].process = len

    def __getitem__(self, i):
        self.ts[1].process("a")
        return i


class CountingField:
    def __set_name__(self, o, n):
        self.n = n
        self.hits = []

    def __get__(self, o, t=None):
        self.hits.append(1)
        return o.__dict__[self.n]

    def __set__(self, o, v):
        o.__dict__[self.n] = v


class DataDescriptor(Sharing):
    val = CountingField()

    def init(self):
        self.val = 3

    def __getitem__(self, i):
        return i + self.val


class LoggingProperty(property):
    def __get__(self, o, t=None):
        LOG.append(1)
        return super().__get__(o, t)


class SubclassOfProperty(Sharing):
    @LoggingProperty
    def v(self):
        return 1

    def __getitem__(self, i):
        return self.v


class Mode(enum.Enum):
    A = []

    def transform(self, x):
        LOG.append(x)
        return x


class ValueOfAnEnum(Sharing):
    def __getitem__(self, i):
        Mode.A.value.append(i)
        return i


class MethodOfAnEnum(Sharing):
    def __getitem__(self, i):
        return Mode.A.transform(i)


class LoggingEnum(enum.Enum):
    @classmethod
    def _missing_(cls, v):
        LOG.append(v)
        return cls.A


class OneMember(LoggingEnum):
    A = 1


class MissingOfAnEnum(Sharing):
    def __getitem__(self, i):
        OneMember(5)
        return i


class LoggingDecorator(ContextDecorator):
    def __enter__(self):
        LOG.append(1)

    def __exit__(self, *a):
        pass


@contextmanager
def logged(n):
    LOG.append(n)
    yield


class ContextDecoratorOfAClass(Sharing):
    @LoggingDecorator()
    def __getitem__(self, i):
        return i


class ContextManagerAsDecorator(Sharing):
    @logged("x")
    def __getitem__(self, i):
        return i


class Point(NamedTuple):
    x: int
    buf: list = []


class LoggedPoint(Point):
    def __new__(cls, x):
        LOG.append(x)
        return Point.__new__(cls, x)


class DefaultOfANamedTuple(Sharing):
    def __getitem__(self, i):
        Point(i).buf.append(1)
        return i


class NewOfANamedTuple(Sharing):
    def __getitem__(self, i):
        return LoggedPoint(i).x


class Options:
    def __init__(self):
        self.l = []


@dataclass(slots=True)
class Slotted:
    x: int
    o: Options = Options()


class DefaultOfASlottedDataclass(Sharing):
    def __getitem__(self, i):
        Slotted(i).o.l.append(1)
        return i


@dataclass
class WithFactory:
    x: int
    lists: list = field(default_factory=lambda: BUF)


class DefaultFactory(Sharing):
    def __getitem__(self, i):
        WithFactory(i).lists.append(1)
        return i


class FieldsOfAHeldDataclass(Sharing):
    def init(self):
        self.iv = WithFactory(1)

    def __getitem__(self, i):
        return i if dataclasses.asdict(self.iv) else i


@dataclass
class WithRandomFactory:
    x: int
    r: float = field(default_factory=random.random)


class RandomDefaultFactory(Sharing):
    def __getitem__(self, i):
        return WithRandomFactory(i).r


@dataclass
class WithInitVar:
    x: int
    log: InitVar[list]

    def __post_init__(self, log):
        log.append(1)


class InitVarOfADataclass(Sharing):
    def __getitem__(self, i):
        return WithInitVar(i, self.buf).x


@dataclass
class LogsChanges:
    x: int

    def __setattr__(self, n, v):
        LOG.append(n)
        object.__setattr__(self, n, v)


class SetattrOfADataclass(Sharing):
    def __getitem__(self, i):
        return LogsChanges(i).x


class Registry:
    items = {"a": []}

    def __class_getitem__(cls, k):
        LOG.append(k)
        return cls.items[k]


class ClassGetitem(Sharing):
    def __getitem__(self, i):
        Registry["a"].append(1)
        return i


class NextIsShared:
    def __next__(self):
        return BUF


class NextOfAMadeObject(Sharing):
    def __getitem__(self, i):
        next(NextIsShared()).append(1)
        return i


class AbsIsShared:
    def __abs__(self):
        return BUF


class AbsOfAMadeObject(Sharing):
    def __getitem__(self, i):
        abs(AbsIsShared()).append(1)
        return i


class LogsSteps:
    def __next__(self):
        LOG.append(1)
        raise StopIteration

    def __iter__(self):
        return self


class Container:
    def __iter__(self):
        return LogsSteps()


class IteratorOfAHeldObject(Sharing):
    def init(self):
        self.c = Container()

    def __getitem__(self, i):
        return int(any(self.c))


class LogsExists(type(Path())):
    def exists(self, **k):
        LOG.append(1)
        return True


class SubclassOfPath(Sharing):
    def init(self):
        self.p = LogsExists("/tmp")

    def __getitem__(self, i):
        return int(self.p.exists())


class ChangesErrors:
    def __enter__(self):
        return 1

    def __exit__(self, t, e, tb):
        e.args[0].append(1)
        return True


class ErrorGivenToExit(Sharing):
    def __getitem__(self, i):
        with ChangesErrors():
            raise ValueError(self.buf)
        return i


class ObjectOfAnAttributeError(Sharing):
    def __getitem__(self, i):
        try:
            self.buf.foo
        except AttributeError as e:
            e.obj.append(1)
        return i


class LogsChecks(type):
    def __instancecheck__(c, o):
        LOG.append(1)
        return True


class Checked(metaclass=LogsChecks):
    pass


class InstanceCheckInATuple(Sharing):
    def __getitem__(self, i):
        return int(isinstance(i, (Checked, int)))
