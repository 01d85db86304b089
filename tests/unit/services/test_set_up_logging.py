# SPDX-License-Identifier: Apache-2.0
"""Where records go: standard error, files that are moved away, full disks."""

import io
import json
import logging
import threading
import warnings

import pytest
import structlog

from roost.errors import OptionError
from roost.options.read import read_settings
from roost.services.logs import bound, set_level, set_up_logging
from roost.services.options import LogOptions

pytestmark = pytest.mark.usefixtures("logging_as_before")
LIBRARY = logging.getLogger("some.library")


def log():
    return structlog.get_logger("roost.tests")


def written():
    """Wait until everything logged so far is written: that is done in the background."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def shown(stream):
    written()
    return stream.getvalue()


def set_up(**options):
    stream = io.StringIO()
    set_up_logging(LogOptions(**options), "roost-scheduler", stream)
    return stream


def test_records_of_ours_and_of_libraries_look_alike():
    stream = set_up()
    with bound(request_id="req-1"):
        log().info("placed", hosts="h1")
        LIBRARY.info("connected to %s", "rabbit://u:p4ss@mq")
    ours, theirs = shown(stream).splitlines()
    assert ours.endswith(" INFO roost.tests [req-1] placed hosts=h1")
    assert theirs.endswith(" INFO some.library [req-1] connected to rabbit://u:***@mq")


def test_json_is_an_object_a_line():
    stream = set_up(use_json=True)
    log().warning("low", free=1)
    assert json.loads(shown(stream))["free"] == 1


def test_what_is_bound_ends_with_its_block_and_stays_in_its_thread():
    stream = set_up()
    with bound(request_id="req-1"):
        with bound(request_id="req-2"):
            log().info("inner")
        log().info("outer")
        other = threading.Thread(target=log().info, args=("other thread",))
        other.start()
        other.join()
    log().info("after")
    ends = [line.partition("roost.tests ")[2] for line in shown(stream).splitlines()]
    assert ends == ["[req-2] inner", "[req-1] outer", "other thread", "after"]


def test_details_are_told_with_debug_alone():
    quiet, loud = set_up(), None
    log().debug("detail")
    loud = set_up(debug=True)
    log().debug("detail")
    assert shown(quiet) == ""
    assert "DEBUG roost.tests detail" in shown(loud)


def test_the_level_can_be_changed_while_it_runs():
    stream = set_up()
    set_level("debug")
    log().debug("now")
    set_level("ERROR")
    log().warning("not now")
    assert shown(stream).count("\n") == 1


def test_loggers_may_have_levels_of_their_own_until_other_options_say_otherwise():
    stream = set_up(default_log_levels=("some.library=ERROR", "other=WARN"))
    LIBRARY.warning("hidden")
    set_up_logging(LogOptions(default_log_levels=()), "roost", stream)
    LIBRARY.warning("shown")
    assert [line.rpartition(" ")[2] for line in shown(stream).splitlines()] == ["shown"]


@pytest.mark.parametrize("pair", ["amqp", "=INFO", "amqp=LOUD", "amqp="])
def test_a_level_that_is_none_is_an_error_and_changes_nothing(pair):
    stream = set_up()
    with pytest.raises(OptionError, match="default_log_levels"):
        set_up(default_log_levels=(pair,))
    log().info("still here")
    assert "still here" in shown(stream)


def test_a_level_that_is_none_can_not_be_set():
    with pytest.raises(OptionError, match="did you mean DEBUG"):
        set_level("debugg")


def test_a_log_file_takes_everything_and_standard_error_nothing(tmp_path):
    stream = set_up(log_file=str(tmp_path / "own.log"))
    log().info("écrit \udcff")
    written()
    assert (tmp_path / "own.log").read_text(encoding="utf-8").endswith("écrit \\udcff\n")
    assert shown(stream) == ""


def test_both_take_everything_where_both_are_wanted(tmp_path):
    stream = set_up(log_dir=str(tmp_path), use_stderr=True)
    log().info("here")
    assert shown(stream) == (tmp_path / "roost-scheduler.log").read_text() != ""


def test_a_relative_file_is_in_the_folder(tmp_path):
    set_up(log_dir=str(tmp_path), log_file="own.log")
    assert (tmp_path / "own.log").exists()


def test_a_file_that_was_moved_away_is_opened_anew(tmp_path):
    path = tmp_path / "own.log"
    set_up(log_file=str(path))
    log().info("first")
    written()
    path.rename(tmp_path / "own.log.1")
    log().info("second")
    written()
    assert "first" in (tmp_path / "own.log.1").read_text()
    assert path.read_text().count("\n") == 1


def test_a_folder_that_cannot_be_written_to_is_one_clear_error(tmp_path):
    with pytest.raises(OptionError, match=r"missing/own.log cannot be opened: No such file .*log_file"):
        set_up(log_file=str(tmp_path / "missing" / "own.log"))
    with pytest.raises(OptionError, match="cannot be opened"):
        set_up(log_file="a\0b")


def test_a_folder_that_vanishes_stops_no_caller_and_is_reported_once(tmp_path, capfd):
    folder = tmp_path / "logs"
    folder.mkdir()
    set_up(log_file=str(folder / "own.log"))
    (folder / "own.log").unlink()
    folder.rmdir()
    for _ in range(3):
        log().info("lost")
        written()
    assert capfd.readouterr().err.count("the log cannot be written") == 1
    folder.mkdir()
    log().info("back")
    written()
    assert "back" in (folder / "own.log").read_text()


def test_a_full_disk_stops_no_caller_and_is_reported_once(capfd):
    full = open("/dev/full", "w")  # noqa: SIM115 - to close it fails too
    set_up_logging(LogOptions(), "roost", full)
    for _ in range(2):
        log().info("lost")
        written()
    assert capfd.readouterr().err.count("No space left on device") == 1
    logging.getLogger().handlers.clear()
    with pytest.raises(OSError, match="No space left"):
        full.close()


def test_other_handlers_are_replaced_and_earlier_files_closed(tmp_path):
    logging.getLogger().addHandler(logging.NullHandler())
    set_up(log_file=str(tmp_path / "one.log"))
    (first,) = logging.getLogger().handlers
    set_up(log_file=str(tmp_path / "two.log"))
    log().info("here")
    written()
    assert first.stream is None
    assert (tmp_path / "one.log").read_text() == ""
    assert (tmp_path / "two.log").read_text().count("\n") == 1


def test_warnings_and_threads_that_fail_are_in_the_log():
    stream = set_up()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old", stacklevel=1)
        logging.captureWarnings(False)
    broken = threading.Thread(target=lambda: 1 / 0, name="worker-7")
    broken.start()
    broken.join()
    warning, failure = shown(stream).splitlines()
    assert "UserWarning: old" in warning
    assert "CRITICAL roost.threads thread worker-7 ended: division by zero raised=" in failure


def test_the_options_are_read_by_novas_names(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text(
        "[DEFAULT]\ndebug = true\nlogfile = a.log\nuse_json = yes\ndefault_log_levels = amqp=WARN, x=INFO\n"
    )
    options = read_settings([LogOptions], [file]).fill(LogOptions)
    assert (options.debug, options.log_file, options.use_json) == (True, "a.log", True)
    assert options.default_log_levels == ("amqp=WARN", "x=INFO")
