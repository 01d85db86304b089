# SPDX-License-Identifier: Apache-2.0
"""Claims that were begun and not answered are found by the next scheduler."""

import os
from contextlib import suppress

import pytest

from roost.best_effort import SWALLOWED
from roost.errors import OptionError
from roost.nova import claims
from roost.nova.claims import PATTERN, ClaimJournal

PATIENCE = 90


class Journals:
    """Journals of several processes in one folder, and a clock."""

    def __init__(self, folder):
        self.folder, self.now = folder, 1000.0

    def start(self):
        journal = ClaimJournal(self.folder, lambda: self.now, PATIENCE)
        journal.open()
        journal.take_over()
        return journal

    @staticmethod
    def kill(journal):
        """As kill -9: the operating system closes the file, which ends the lock."""
        os.close(journal._file)
        journal._file = None

    @property
    def files(self):
        return list(self.folder.glob(PATTERN))


@pytest.fixture
def journals(tmp_path):
    return Journals(tmp_path)


def test_a_claim_without_an_answer_is_taken_over_when_its_process_is_gone(journals):
    first = journals.start()
    first.begin(["answered"])
    first.begin(["open", "other"])
    first.end(["answered"])
    second = journals.start()
    journals.now += PATIENCE
    assert second.abandoned() == {}, "the process lives"
    journals.kill(first)
    third = journals.start()
    assert third.abandoned() == {"open": 1000.0 + PATIENCE, "other": 1000.0 + PATIENCE}
    assert len(journals.files) == 2, "that of the killed process is gone"


def test_a_scheduler_that_lives_takes_over_without_a_restart(journals):
    first, second = journals.start(), journals.start()
    first.begin(["a"])
    second.take_over()
    journals.kill(first)
    second.take_over()
    journals.now += PATIENCE
    assert list(second.abandoned()) == ["a"]


def test_a_journal_that_is_only_opened_takes_nothing_over(journals):
    """As in shadow mode, which must not write to placement."""
    first = journals.start()
    first.begin(["a"])
    journals.kill(first)
    ClaimJournal(journals.folder, lambda: journals.now, PATIENCE).open()
    assert len(journals.files) == 2


def test_a_long_journal_keeps_what_is_open(journals, monkeypatch):
    monkeypatch.setattr(claims, "LONGEST_BYTES", 200)
    journal = journals.start()
    journal.begin(["open"])
    for number in range(50):
        journal.begin([f"claim-{number}"])
        journal.end([f"claim-{number}"])
    assert os.fstat(journal._file).st_size < 500
    journals.kill(journal)
    journals.now += PATIENCE
    assert list(journals.start().abandoned()) == ["open"]


def test_a_claim_is_abandoned_when_its_caller_has_given_up(journals):
    first = journals.start()
    first.begin(["a"])
    journals.kill(first)
    second = journals.start()
    journals.now += PATIENCE - 1
    assert second.abandoned() == {}
    journals.now += 1
    assert list(second.abandoned()) == ["a"]
    second.end(["a"])
    assert second.abandoned() == {}


def test_what_was_taken_over_survives_another_kill(journals):
    for number in range(2):
        journal = journals.start()
        journal.begin([f"of-{number}"])
        journals.kill(journal)
    journals.now += PATIENCE
    assert set(journals.start().abandoned()) == {"of-0", "of-1"}


def test_a_claim_in_doubt_is_abandoned_by_the_process_itself(journals):
    journal = journals.start()
    journal.begin(["a"])
    journal.abandon(["a"])
    journals.now += PATIENCE
    assert list(journal.abandoned()) == ["a"]


def test_a_line_that_was_cut_off_and_junk_do_no_harm(journals):
    first = journals.start()
    first.begin(["a"])
    os.write(first._file, b'[1]\n{"begin": 3}\n\xff\n{"begin": ["b')
    journals.kill(first)
    journals.now += PATIENCE
    assert list(journals.start().abandoned()) == ["a"]


def test_a_journal_whose_claims_were_all_answered_leaves_nothing(journals, monkeypatch):
    monkeypatch.setattr(claims, "LONGEST_BYTES", 200)
    journal = journals.start()
    for number in range(20):
        journal.begin([f"claim-{number}"])
        journal.end([f"claim-{number}"])
    assert os.fstat(journal._file).st_size < 400
    journal.close()
    assert journals.files == []


def test_a_journal_with_open_claims_stays_when_it_is_closed(journals):
    journal = journals.start()
    journal.begin(["a"])
    journal.close()
    assert len(journals.files) == 1


def test_without_a_folder_claims_are_noted_in_memory(journals):
    journal = ClaimJournal(None, lambda: journals.now, PATIENCE)
    journal.open()
    journal.begin(["a"])
    journal.abandon(["a"])
    journals.now += PATIENCE
    assert list(journal.abandoned()) == ["a"]
    journal.close()


def test_a_folder_that_cannot_be_used_is_an_error_that_names_it(tmp_path):
    with pytest.raises(OptionError, match=r"state_directory = .*missing: No such file"):
        ClaimJournal(tmp_path / "missing", lambda: 0.0, PATIENCE).open()


def test_a_full_disk_ends_the_journal_and_nothing_else(journals, caplog):
    journal = journals.start()
    os.close(journal._file)
    journal._file = os.open("/dev/full", os.O_WRONLY)
    journal.begin(["a"])
    journal.end(["a"])
    assert "claims are not noted any more" in caplog.text


def test_a_disk_that_hangs_delays_one_claim_and_not_for_long(journals, caplog, monkeypatch):
    """D23: claims go on without a note; they are noted again when the disk goes on."""
    monkeypatch.setattr(claims, "LONGEST_WAIT_SECONDS", 0.01)
    journal, (reader, hung) = journals.start(), os.pipe()
    os.set_blocking(hung, False)
    with suppress(BlockingIOError):
        while os.write(hung, bytes(65536)):
            pass
    os.set_blocking(hung, True)
    os.close(journal._file)
    journal._file = hung
    for number in range(3):
        journal.begin([f"claim-{number}"])
    assert caplog.text.count("claims are not noted in time") == 1
    noted = b""
    while b"claim-2" not in noted:  # the disk goes on
        noted += os.read(reader, 65536)
    assert journal._writer.flush(20)
    journal.begin(["later"])
    assert not journal._is_stuck
    assert b"later" in os.read(reader, 65536)
    os.close(reader)


def test_an_error_in_the_journal_fails_no_claim(journals, monkeypatch):
    """D23: the journal only watches claims."""
    journal, before = journals.start(), SWALLOWED.counts().get("claim_journal", 0)
    monkeypatch.setattr(claims, "_line", lambda note: 1 / 0)
    journal.begin(["a"])
    journal.end(["a"])
    assert SWALLOWED.counts()["claim_journal"] == before + 2
