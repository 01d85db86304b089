# SPDX-License-Identifier: Apache-2.0
"""The replay, on traces small enough to know the answer; and the figures that the page on packing shows."""

import gzip
import json

import pytest
from benchmarks import figure, replay
from benchmarks.replay import Event, Replay, Size

GIB = 1024
SIZE = Size(64, 192 * GIB)
BY_NAME = {each.name: each for each in replay.POLICIES}


class Story:
    """Events, written down as they happen."""

    def __init__(self):
        self.events = []
        self.alive = {}

    def create(self, vcpus, gib):
        vm_id = len(self.events)
        self.alive[vm_id] = vcpus
        self.events.append(Event(True, vm_id, vcpus, gib * GIB))
        return vm_id

    def delete(self, vm_id):
        del self.alive[vm_id]
        self.events.append(Event(False, vm_id))


def holes():
    """24 full hosts; half of them lose 32 vCPUs and half lose 16; then machines of 16 come, then of 32.

    Exact fits need no further host. First fit breaks 4 holes of 32 with machines of 16, and has to open 2 hosts.
    """
    story = Story()
    hosts = [(story.create(32, 96), story.create(16, 48), story.create(16, 48)) for _ in range(24)]
    for number, (large, small, _) in enumerate(hosts):
        story.delete(large if number % 2 == 0 else small)
    for vcpus in (16, 32):
        for _ in range(12):
            story.create(vcpus, 3 * vcpus)
    for vm_id in list(story.alive):
        story.delete(vm_id)
    return story.events


def skewed():
    """A third machine with much memory would fit beside the other two, and take the memory from their CPUs."""
    story = Story()
    story.create(8, 64)
    story.create(8, 64)
    filler = story.create(48, 64)
    story.create(24, 32)
    story.delete(filler)
    story.create(8, 64)
    story.create(24, 32)
    story.create(24, 32)
    return story.events


def hosts_used(events, policy, hosts=40):
    outcome = Replay(BY_NAME[policy], hosts, SIZE).run(events)
    assert outcome.rejected == 0
    return outcome.hosts_used


def write_trace(path, events):
    lines = ["time_s,op,vm_id,vcpus,memory_mb"]
    lines += [
        f"0,create,{each.vm_id},{each.vcpus},{each.memory_mb}" if each.creates else f"0,delete,{each.vm_id},,"
        for each in events
    ]
    path.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    return path


@pytest.fixture
def trace(tmp_path):
    return write_trace(tmp_path / "trace.csv.gz", holes())


@pytest.mark.parametrize(
    ("policy", "hosts"),
    [
        ("first-fit", 26),
        ("balance", 26),
        ("best-fit", 24),
        ("stack", 24),
        ("best-fit+balance", 24),
        ("least-ram", 24),
    ],
)
def test_hosts_used_where_holes_should_be_kept_whole(policy, hosts):
    assert len(holes()) == 192
    assert replay.lower_bound(holes(), SIZE) == 24
    assert hosts_used(holes(), policy) == hosts


@pytest.mark.parametrize(
    ("policy", "hosts"),
    [("first-fit", 3), ("best-fit", 3), ("stack", 3), ("best-fit+balance", 2), ("stack+balance", 2)],
)
def test_hosts_used_where_memory_should_not_be_taken_from_cpus(policy, hosts):
    assert replay.lower_bound(skewed(), SIZE) == 2
    assert hosts_used(skewed(), policy) == hosts


@pytest.mark.parametrize("guess", [1, 26, 31, 39, 99])
def test_one_that_spreads_is_given_the_fewest_hosts_that_turn_nobody_away(guess):
    policy = replay.Policy("spread", BY_NAME["spread"].weighers, spreads_over=guess)
    needed = replay.measure(holes(), policy, 40, SIZE).hosts
    assert 24 < needed < 40
    assert Replay(policy, needed, SIZE).run(holes()).rejected == 0
    assert Replay(policy, needed - 1, SIZE).run(holes()).rejected > 0


def test_machines_that_were_turned_away_are_counted_and_their_end_is_no_surprise():
    outcome = Replay(BY_NAME["first-fit"], 20, SIZE).run(holes())
    assert (outcome.hosts_used, outcome.rejected, outcome.decisions) == (20, 12 + 6, 96)


def test_everything_is_given_back_at_the_end():
    run = Replay(BY_NAME["best-fit"], 40, SIZE)
    run.run(holes())
    assert run.held == {}
    for column in ("allocated:VCPU", "allocated:MEMORY_MB", "num_instances", "vcpus_used"):
        assert not run.table.column(column).any()


@pytest.mark.parametrize("policy", BY_NAME)
def test_the_same_trace_gives_the_same_bytes(policy):
    first, second = (Replay(BY_NAME[policy], 40, SIZE).run(holes(), clock=lambda: 0) for _ in range(2))
    assert first == second
    assert json.dumps(vars(first)) == json.dumps(vars(second))


def test_other_placements_show_in_the_digest():
    first, second = (Replay(BY_NAME[name], 40, SIZE).run(holes()) for name in ("first-fit", "best-fit"))
    assert first.placements != second.placements


def test_the_answer_as_json(trace, capsys):
    assert replay.main(["best-fit", "spread", "-f", "json", "--hosts", "40"], trace) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    document = json.loads(printed.out)
    assert document.keys() == {"creates", "deletes", "host", "bound", "policies"}
    assert (document["creates"], document["deletes"], document["bound"]) == (96, 96, 24)
    best_fit = document["policies"][0]
    assert best_fit.keys() == {
        *("policy", "weighers", "hosts", "share_of_bound", "decisions_per_second", "seconds", "placements")
    }
    assert (best_fit["policy"], best_fit["weighers"]) == ("best-fit", {"BestFitWeigher": 1.0})
    assert (best_fit["hosts"], best_fit["share_of_bound"]) == (24, 1.0)


def test_the_answer_as_a_table(trace, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert replay.main(["first-fit", "--hosts", "40"], trace) == 0
    printed = capsys.readouterr().out
    assert "no fewer than 24 hosts" in printed
    assert "26 │       108.3% │" in printed


def test_hosts_of_another_size(trace, capsys):
    assert replay.main(["best-fit", "-f", "json", "--size", "128x384", "--hosts", "20"], trace) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["host"], document["bound"]) == ({"vcpus": 128, "memory_mb": 384 * GIB}, 12)
    assert document["policies"][0]["hosts"] == 13  # holes of 48 take three machines of 16, or one of 32


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["best-fti"], "there is no policy best-fti (did you mean best-fit?)"),
        (["best-fit", "--hosts", "20"], "best-fit: 20 hosts are too few for this trace"),
        (["spread", "--hosts", "26"], "spread: 26 hosts are too few for this trace"),
        (["spread", "--hosts", "7"], "spread: 7 hosts are too few for this trace"),
    ],
)
def test_what_cannot_be_run_is_said(trace, capsys, arguments, complaint):
    assert replay.main(arguments, trace) == 2
    assert complaint in capsys.readouterr().err


def test_the_trace_we_ship_is_the_one_that_is_described():
    events = replay.read_events()
    assert sum(each.creates for each in events) == 259_159
    assert len(events) == 504_001
    assert len({(each.vcpus, each.memory_mb) for each in events if each.creates}) == 16
    assert replay.lower_bound(events, SIZE) == 689


def test_the_figure_is_drawn_from_the_numbers_beside_it():
    document = json.loads(figure.NUMBERS.read_text(encoding="utf-8"))
    assert figure.draw(document) == figure.FIGURE.read_text(encoding="utf-8")


def test_the_page_shows_the_numbers_beside_it():
    document = json.loads(figure.NUMBERS.read_text(encoding="utf-8"))
    page = figure.FIGURE.with_name("packing.md").read_text(encoding="utf-8")
    for each in document["policies"]:
        assert f"| `{each['policy']}` |" in page
        row = next(line for line in page.splitlines() if line.startswith(f"| `{each['policy']}` |"))
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[2:4] == [str(each["hosts"]), f"{each['share_of_bound']:.1%}"]
