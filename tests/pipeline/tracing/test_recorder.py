import threading
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline._tracing.recorder import Lanes, Recorder, Slice


def piece(number: int) -> Slice:
    return Slice(1, "x", number, number + 1, 0, ())


def test_each_thread_has_a_track_of_its_own() -> None:
    recorder = Recorder(10)
    numbers: list[int] = []

    def look() -> None:
        track = recorder.thread()
        assert recorder.thread() is track
        assert track.name == threading.current_thread().name
        assert track.thread_id == threading.get_native_id()
        numbers.append(track.number)

    # One after the other: the system may give a number again, and a track is not shared all the same.
    for _ in range(4):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert len(set(numbers)) == 4
    assert [track.number for track in recorder.tracks()] == numbers


def test_the_latest_are_kept_until_it_is_closed() -> None:
    recorder = Recorder(3)
    for number in range(5):
        recorder.add(piece(number))
        recorder.count("queue", number, number)
    recorder.close()
    recorder.add(piece(5))
    recorder.count("queue", 5.0, 5)
    assert [each.begin for each in recorder.slices()] == [2, 3, 4]
    assert [each.items for each in recorder.counts()] == [2, 3, 4]


def test_it_may_be_read_while_others_add() -> None:
    recorder = Recorder(500)
    stopped = threading.Event()

    def add() -> None:
        number = 0
        while not stopped.is_set():
            recorder.add(piece(number))
            number += 1

    thread = threading.Thread(target=add)
    thread.start()
    try:
        for _ in range(300):
            begins = [each.begin for each in recorder.slices()]
            # None is missing in between.
            assert all(after == before + 1 for before, after in pairwise(begins))
    finally:
        stopped.set()
        thread.join()


@given(st.lists(st.booleans(), max_size=40))
def test_lanes_are_as_many_as_overlap(steps: list[bool]) -> None:
    recorder = Recorder(10)
    lanes = Lanes(recorder, "stage")
    taken: list[int] = []
    most = 0
    for takes in steps:
        if takes:
            lane, track = lanes.take()
            assert lane not in taken
            assert track.name == f"stage #{lane}"
            # The first one that is free.
            assert set(range(lane)) <= set(taken)
            taken.append(lane)
        elif taken:
            lanes.give_back(taken.pop(0))
        most = max(most, len(taken))
    assert len(recorder.tracks()) == most
