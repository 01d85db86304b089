# SPDX-License-Identifier: Apache-2.0
"""Strategies of requests, and of the parts that built-in filters read: extra specs, hints, images, groups."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from roost.model import Flavor, RequestSpec, Retry, ServerGroup
from roost.model.group import GROUP_POLICIES
from roost.testing.strategies.hosts import UUIDS, rarely

ZONES = ("az1", "az2", "nova", "")


@st.composite
def specs(draw: Any, max_instances: int = 1) -> RequestSpec:
    """A request for 1 to `max_instances` instances, of a size that fits some hosts of `host_tables`."""
    tried = st.tuples(st.sampled_from(["host0", "host1", "host9"]), st.sampled_from(["n1", "n2", "host0"]))
    return RequestSpec(
        flavor=Flavor(
            vcpus=draw(st.integers(1, 8)),
            memory_mb=draw(st.integers(0, 2048)),
            root_gb=draw(st.integers(0, 20)),
            ephemeral_gb=draw(st.integers(0, 5)),
            swap=draw(st.sampled_from([0, 1, 512, 1024, 1500])),
        ),
        num_instances=draw(st.integers(1, max_instances)),
        availability_zone=draw(st.sampled_from([None, *ZONES])),
        retry=draw(st.one_of(st.none(), st.builds(Retry, hosts=st.lists(tried, max_size=3)))),
    )


_OPERATORS = "= == != >= <= s== s!= s< s<= s> s>= <in> <all-in> <or> > < <range-in>".split()
_OPERANDS = ["1", "4", "7", "5.0", "true", "a", "x", "QEMU", "nan", "1e3", "<or>", "avx", "3", "52", "0"]


def requirements() -> st.SearchStrategy[str]:
    """Values of extra specs: operators with too few, enough or too many operands, plain texts, blanks."""
    with_operator = st.tuples(st.sampled_from(_OPERATORS), st.lists(st.sampled_from(_OPERANDS), max_size=3))
    return st.one_of(
        with_operator.map(lambda words: " ".join([words[0], *words[1]])),
        st.sampled_from([*_OPERANDS, "", " ", " 7 ", "a,b", "False", "0", "1.5", "['sse', 'avx2']"]),
        st.text(max_size=4),
    )


def extra_specs(keys: Sequence[str]) -> st.SearchStrategy[dict[str, str]]:
    """Up to three extra specs with these keys, in any order."""
    return st.dictionaries(st.sampled_from(keys), requirements(), max_size=3)


REFERENCES = (
    "$free_ram_mb $hypervisor_type $stats.opt $stats.a.b $stats.gpu $service.disabled $service.nosuch $nosuch $ $host"
    " $nodename $host_ip $num_io_ops $free_ram_mb.x $hypervisor_type.x $stats $supported_instances $numa_topology"
).split()
_QUERY_LEAVES = st.one_of(
    st.sampled_from(REFERENCES),
    st.sampled_from([0, 1, 512, 2.0, True, False, None, "", "QEMU", "KVM", "512", "host0", {}, {"a": 1}, -1]),
)
_QUERY_OPERATORS = st.sampled_from(["and", "or", "not", "=", "<", ">", "<=", ">=", "in"])
_ODD_OPERATORS: st.SearchStrategy[Any] = st.sampled_from(["!=", "AND", 1, None, True, {}, "$host"])


def _calls(arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    operators = rarely(_ODD_OPERATORS, else_=_QUERY_OPERATORS)
    return st.tuples(operators, st.lists(arguments, max_size=4)).map(lambda call: [call[0], *call[1]])


QUERIES: st.SearchStrategy[str] = rarely(
    st.sampled_from(
        ["", "[]", "{}", '""', "null", "0", "5", "true", "nonsense", '"abc"', "[", "NaN", '["and"', "[[]]"]
    ),
    else_=_calls(st.recursive(_QUERY_LEAVES, _calls, max_leaves=6)).map(json.dumps),
)
"""Values of the hint `query`, most of them valid JSON queries."""

IMAGE_PROPERTIES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "hw_architecture": st.sampled_from(["x86_64", "AMD64", "i386", "aarch64"]),
        "architecture": st.sampled_from(["amd64", "aarch64"]),
        "img_hv_type": st.sampled_from(["kvm", "KVM", "xapi", "qemu"]),
        "hw_vm_mode": st.sampled_from(["hvm", "xen", "pv", "hv"]),
        "img_hv_requested_version": st.sampled_from([">=6.0,<6.2", "<=6.2", "> 6", "==6.2.0", "!=7", ">=6.2.1, < 8"]),
        "hw_maxphysaddr_bits": st.sampled_from([0, 39, 40, 46, "52"]),
        "os_distro": st.sampled_from(["windows", "linux", ""]),
        "hw_boot_menu": st.sampled_from(["true", "false", "no"]),
        "hw_cpu_cores": st.sampled_from(["4", 8, 0]),
        "hw_cpu_policy": st.sampled_from(["dedicated", "shared"]),
        "hw_cpu_thread_policy": st.sampled_from(["require", "prefer"]),
        "other": st.sampled_from(["1", "2"]),
    },
)

GROUPS: st.SearchStrategy[ServerGroup | None] = rarely(
    st.none(),
    else_=st.builds(
        ServerGroup,
        policy=st.sampled_from(GROUP_POLICIES),
        members=st.lists(st.sampled_from(UUIDS), unique=True, max_size=4),
        hosts=st.lists(st.sampled_from(["host0", "host1", "HOST0", "elsewhere"]), unique=True, max_size=2),
        rules=st.sampled_from([{}, {}, {"max_server_per_host": 2}, {"max_server_per_host": "3"}]),
    ),
)


def hints(name: str, texts: Sequence[str]) -> st.SearchStrategy[dict[str, list[str]]]:
    """No hint, or the hint `name` with a list of up to three of these texts."""
    return st.one_of(st.just({}), st.lists(st.sampled_from(texts), max_size=3).map(lambda found: {name: found}))
