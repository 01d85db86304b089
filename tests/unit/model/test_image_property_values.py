# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from tests.unit.model.image_property_examples import (
    ANY_CASE,
    BOOLEANS,
    EXAMPLES,
    INTEGERS,
    ONE_OF,
    TEXTS,
    refusal,
    take,
)

from roost.model.image import parse_properties
from roost.model.image_property_values import (
    parse_cpu_set,
    parse_version_predicate,
    version_satisfies,
)

# --- integers, texts, booleans ----------------------------------------------------------------------


@pytest.mark.parametrize(("raw", "number"), [("4", 4), (4, 4), ("-1", -1), (-1, -1), ("0", 0), (" 4 ", 4)])
def test_an_integer_is_read_as_python_reads_its_text(raw, number):
    assert take("hw_cpu_cores", raw) == number


@pytest.mark.parametrize("name", INTEGERS.split())
@pytest.mark.parametrize("raw", ["4.0", "x", "", 4.5, 4.0, True, [4]])
def test_what_is_no_integer_is_refused_as_one(name, raw):
    assert refusal(**{name: raw}).nova_type == "ValueError"


def test_an_integer_too_long_to_print_is_refused():
    assert refusal(hw_cpu_cores=10**5000).problem == "a number of thousands of digits is not an integer"


@pytest.mark.parametrize("name", TEXTS.split())
@pytest.mark.parametrize(("raw", "text"), [("", ""), ("any Thing", "any Thing"), (4, "4"), (1.5, "1.5")])
def test_a_text_may_be_anything_and_a_number_becomes_its_text(name, raw, text):
    assert take(name, raw) == text


@pytest.mark.parametrize("raw", [["a"], {"a": "b"}, b"a", 10**5000], ids=["list", "map", "bytes", "huge"])
def test_what_has_no_text_of_its_own_is_no_text(raw):
    assert refusal(os_distro=raw).field == "properties.os_distro"


@pytest.mark.parametrize("name", BOOLEANS.split())
@pytest.mark.parametrize("raw", ["true", "yes", "on", "1", "t", "y", "TRUE", "Yes", "oN", True, 1])
def test_a_true_word_in_any_case_is_true(name, raw):
    assert take(name, raw) is True


@pytest.mark.parametrize("raw", ["false", "no", "off", "0", "maybe", "", "truth", "2", False, 0, 2, 1.5, [], {}])
def test_everything_else_is_false_and_no_error(raw):
    assert take("hw_boot_menu", raw) is False


# --- one of -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "word"), [(name, word) for name in ONE_OF for word in ONE_OF[name].split()])
def test_each_allowed_word_is_taken_as_it_is(name, word):
    assert take(name, word) == word


@pytest.mark.parametrize("name", sorted(set(ONE_OF) - set(ANY_CASE) - {"hw_tpm_version"}))
def test_words_are_case_sensitive(name):
    assert refusal(**{name: EXAMPLES[name][0].swapcase()}).nova_type == "ValueError"


@pytest.mark.parametrize("name", ANY_CASE)
def test_some_properties_are_lower_cased_first(name):
    assert take(name, EXAMPLES[name][0].upper()) == EXAMPLES[name][1]


@pytest.mark.parametrize("name", sorted(ONE_OF))
@pytest.mark.parametrize("raw", ["", "bogus", " ", 4, 2.0, True, ["virtio"]])
def test_a_word_outside_the_list_is_refused(name, raw):
    assert refusal(**{name: raw}).field == f"properties.{name}"


@pytest.mark.parametrize("name", ["hw_architecture", "hw_emulation_architecture"])
@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("i386", "i686"),
        ("i486", "i686"),
        ("i586", "i686"),
        ("x86_32", "i686"),
        ("x86_32p", "i686"),
        ("amd64", "x86_64"),
        ("AMD64", "x86_64"),
    ],
)
def test_an_architecture_gets_its_canonical_name(name, raw, canonical):
    assert take(name, raw) == canonical


@pytest.mark.parametrize("raw", ["x86", "arm64", ""])
def test_an_architecture_outside_the_list_is_refused(raw):
    assert refusal(hw_architecture=raw).nova_type == "ValueError"


@pytest.mark.parametrize(
    ("name", "raw", "canonical"),
    [
        ("img_hv_type", "xapi", "xen"),
        ("img_hv_type", "XAPI", "xen"),
        ("hw_vm_mode", "pv", "xen"),
        ("hw_vm_mode", "hv", "hvm"),
        ("hw_vm_mode", "baremetal", "hvm"),
        ("hw_vif_model", "VirtualE1000", "e1000"),
        ("hw_vif_model", "VirtualE1000e", "e1000e"),
        ("hw_vif_model", "VirtualPCNet32", "pcnet"),
        ("hw_vif_model", "VirtualSriovEthernetCard", "sriov"),
        ("hw_vif_model", "VirtualVmxnet", "vmxnet"),
        ("hw_vif_model", "VirtualVmxnet3", "vmxnet3"),
        ("hw_scsi_model", "lsiLogicsas", "lsisas1068"),
        ("hw_scsi_model", "paraVirtual", "vmpvscsi"),
    ],
)
def test_another_spelling_gives_the_canonical_word(name, raw, canonical):
    assert take(name, raw) == canonical


# --- versions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [">=6.0", ">=1.0, <2.0", "> 6", "!=6.2.0", "== 7", " <=2 ,>1 ", ">=2.12,<=6.2.1"])
def test_a_version_predicate_is_kept_as_it_is_written(raw):
    assert take("img_hv_requested_version", raw) == raw


@pytest.mark.parametrize("raw", ["6.0", "", "~=6", ">=", ">=x", ">=6.0,", ">=6.0 <7", "=6", ">=6.", ">=-1", 6.0])
def test_what_is_no_version_predicate_is_refused(raw):
    assert refusal(img_hv_requested_version=raw).nova_type == "ValueError"


def test_a_predicate_is_read_as_operators_and_numbers():
    assert parse_version_predicate(">=6.0, <7") == ((">=", (6, 0)), ("<", (7,)))


@pytest.mark.parametrize(
    ("text", "version", "holds"),
    [
        (">=6.0,<6.2", (6, 2, 1), False),
        ("<=6.2", (6, 2, 1), False),
        ("> 6", (6, 2, 1), True),
        (">=6.0, <7", (6, 2, 1), True),
        ("==6.2", (6, 2, 0), True),
        ("==6.2.0", (6, 2), True),
        ("!=6.2.0.0", (6, 2), False),
        (">6.2", (6, 2, 0), False),
        (">=6.2.0", (6, 2), True),
        ("<6.10", (6, 9), True),
        ("==0", (0, 0, 0), True),
        (">0", (0, 0, 1), True),
    ],
)
def test_versions_are_compared_number_by_number_without_zeros_at_the_end(text, version, holds):
    assert version_satisfies(version, parse_version_predicate(text)) is holds


def test_no_comparisons_hold_for_every_version():
    assert version_satisfies((1,), ())


# --- CPU sets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("3", {3}),
        ("0-3", {0, 1, 2, 3}),
        ("1-4,^2", {1, 3, 4}),
        ("^2,1-4", {1, 3, 4}),
        ("0-7,^2-5", {0, 1, 6, 7}),
        (" 1 , 3 - 4 ", {1, 3, 4}),
        ("1,,2,", {1, 2}),
        ("2-2", {2}),
        ("^2", set()),
        ("", set()),
    ],
)
def test_a_cpu_set_is_a_list_of_numbers_ranges_and_exclusions(text, cpus):
    assert parse_cpu_set(text) == cpus


def test_a_cpu_set_of_one_may_be_a_number():
    assert parse_properties({"hw_numa_cpus.0": 3}).hw_numa_cpus == (frozenset({3}),)


@pytest.mark.parametrize("text", ["x", "3-1", "-1", "1-", "1-2-3", "^", "^^1", "1;2", "0x1", "1.0", [1], True, 1.5])
def test_a_cpu_set_that_cannot_be_read_is_an_invalid_in_nova(text):
    error = refusal(**{"hw_numa_cpus.0": text})
    assert (error.field, error.nova_type) == ("properties.hw_numa_cpus.0", "Invalid")


@pytest.mark.parametrize("text", ["65536", "0-999999999", "0-99999999999999999999"])
def test_a_cpu_set_stays_below_65536_cpus(text):
    assert refusal(**{"hw_numa_cpus.0": text}).nova_type == "Invalid"
