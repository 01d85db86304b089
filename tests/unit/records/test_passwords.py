# SPDX-License-Identifier: Apache-2.0
"""Hashes of passwords."""

import subprocess
import sys
import threading

import pytest

from roost.errors import BadInput
from roost.records.users import (
    DEFAULT_COST,
    LONGEST_PASSWORD,
    MOST_THREADS,
    ScryptCost,
    hash_password,
    verify_password,
)

CHEAP = ScryptCost(n=2)


def test_the_right_password_is_accepted_and_others_are_not():
    stored = hash_password("correct horse", CHEAP)
    assert verify_password("correct horse", stored)
    assert not verify_password("correct horse ", stored)
    assert not verify_password("", stored)


def test_a_hash_says_how_it_was_made_and_is_salted():
    stored = hash_password("pw", CHEAP)
    assert stored.startswith("scrypt$2$8$1$")
    assert "pw" not in stored.split("$")
    assert hash_password("pw", CHEAP) != stored


def test_a_hash_of_another_cost_is_still_understood():
    assert verify_password("pw", hash_password("pw", ScryptCost(4, 2, 3)), CHEAP)


def test_the_default_cost_works():
    assert verify_password("pw", hash_password("pw"))
    assert DEFAULT_COST.n * DEFAULT_COST.r * 128 == 16 * 2**20


@pytest.mark.parametrize("password", ["", "x", "\0" * 32, "\ud800"])
def test_nobody_has_no_password(password):
    assert not verify_password(password, None, CHEAP)


def test_a_user_who_does_not_exist_costs_a_hash(monkeypatch):
    costs = []
    monkeypatch.setattr("hashlib.scrypt", lambda *_, n, **__: costs.append(n) or bytes(32))
    assert not verify_password("pw", None, ScryptCost(n=64))
    assert costs == [64]


def test_half_a_character_from_json_is_a_password_like_others():
    assert verify_password("\ud800", hash_password("\ud800", CHEAP))


def test_the_longest_password_is_compared_to_its_end():
    stored = hash_password("x" * LONGEST_PASSWORD, CHEAP)
    assert verify_password("x" * LONGEST_PASSWORD, stored)
    assert not verify_password("x" * (LONGEST_PASSWORD + 1), stored)


@pytest.mark.parametrize(("password", "problem"), [("", "empty"), ("x" * 1025, "1025 characters")])
def test_a_password_that_cannot_be_one(password, problem):
    with pytest.raises(BadInput, match=problem):
        hash_password(password, CHEAP)


FLOOD = """\
import threading
from roost.records.users import hash_password

def read_rss_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

hash_password("pw")
before = read_rss_mib()
threads = [threading.Thread(target=hash_password, args=("pw",)) for _ in range(32)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(read_rss_mib() - before)
"""


def test_a_flood_of_sign_ins_leaves_the_memory_of_a_few_hashes():
    """D44: each thread that made one kept its 16 MiB, in an arena of its own."""
    done = subprocess.run([sys.executable, "-c", FLOOD], capture_output=True, text=True, check=True, timeout=60)
    assert float(done.stdout) < MOST_THREADS * 2 * 16


def test_hashes_of_many_threads_are_made_in_few(monkeypatch):
    threads = set()
    monkeypatch.setattr("hashlib.scrypt", lambda *_, **__: threads.add(threading.current_thread().name) or bytes(32))
    asking = [threading.Thread(target=hash_password, args=("pw", CHEAP)) for _ in range(50)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert 1 <= len(threads) <= MOST_THREADS
    assert threads.isdisjoint(each.name for each in asking)
