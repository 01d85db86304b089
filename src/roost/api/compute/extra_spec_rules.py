# SPDX-License-Identifier: Apache-2.0
"""Which values extra specs may have, by namespace; those of other namespaces may have any.

From nova's reference of extra specs. A value is checked when it is set; whether a host can provide what it asks for
is decided with each request.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from roost.errors import BadInput
from roost.model.resources import is_resource_class


class Values(NamedTuple):
    """The values that an extra spec may have."""

    has: Callable[[str], bool]
    described: str


def _number(least: int = 0) -> Values:
    return Values(
        lambda text: bool(re.fullmatch(r"\d{1,18}", text, re.ASCII)) and int(text) >= least,
        f"a whole number of at least {least}",
    )


def _one_of(words: str) -> Values:
    return Values(lambda text: text in words.split(), f"one of {', '.join(words.split())}")


def _matching(pattern: str, described: str) -> Values:
    return Values(lambda text: bool(re.fullmatch(pattern, text, re.ASCII)), described)


_BOOLEANS = frozenset("1 t true on y yes 0 f false off n no".split())
_BOOLEAN = Values(lambda text: text.strip().lower() in _BOOLEANS, "true or false")
_TEXT = Values(lambda text: True, "any text")
_CPUS = _matching(r"\^?\d{1,6}(-\d{1,6})?(,\^?\d{1,6}(-\d{1,6})?)*", "a list of CPUs such as 0-3,^2")

_NAMES: dict[str, Values] = {
    "group_policy": _one_of("none isolate"),
    "accel:device_profile": _TEXT,
    "hw_rng:allowed": _BOOLEAN,
    "hw_rng:rate_bytes": _number(),
    "hw_rng:rate_period": _number(),
    "hw_video:ram_max_mb": _number(),
    "os:secure_boot": _one_of("required disabled optional"),
    "pci_passthrough:alias": _matching(r"[-\w]+:\d{1,6}(,[-\w]+:\d{1,6})*", "ALIAS:COUNT, separated by commas"),
    "trust:trusted_host": _one_of("trusted untrusted unknown"),
    "hw:cpu_policy": _one_of("dedicated shared mixed"),
    "hw:cpu_thread_policy": _one_of("prefer isolate require"),
    "hw:emulator_threads_policy": _one_of("isolate share"),
    "hw:cpu_dedicated_mask": _CPUS,
    "hw:cpu_realtime_mask": _CPUS,
    "hw:mem_page_size": _matching(
        r"large|small|any|\d{1,15}([KMGTkmgt]i?)?[bB]?(it)?", "small, large, any or a size"
    ),
    "hw:maxphysaddr_mode": _one_of("passthrough emulate"),
    "hw:pci_numa_affinity_policy": _one_of("required preferred legacy socket"),
    "hw:pmem": _TEXT,
    "hw:cdrom_bus": _TEXT,
    "hw:input_bus": _TEXT,
    "hw:sound_model": _TEXT,
    "hw:usb_model": _TEXT,
    "hw:ephemeral_encryption_format": _TEXT,
    "hw:tpm_model": _one_of("tpm-tis tpm-crb"),
    "hw:tpm_secret_security": _one_of("user host deployment"),
    "hw:tpm_version": _one_of("1.2 2.0"),
    "hw:viommu_model": _one_of("intel smmuv3 virtio auto"),
    "hw:watchdog_action": _one_of("none pause poweroff reset disabled"),
    "hw:numa_nodes": _number(1),
    "hw:serial_port_count": _number(),
    "hw:redirected_usb_ports": _number(),
    "hw:maxphysaddr_bits": _number(),
}
_NAMES |= dict.fromkeys(
    (f"hw:cpu_{most}{part}" for most in ("", "max_") for part in ("sockets", "cores", "threads")), _number()
)
_NAMES |= dict.fromkeys(
    (
        f"hw:{name}"
        for name in "boot_menu cpu_realtime ephemeral_encryption hide_hypervisor_id locked_memory mem_encryption "
        "vif_multiqueue_enabled virtio_packed_ring".split()
    ),
    _BOOLEAN,
)

_FORMS: tuple[tuple[str, Values], ...] = (
    (r"hw:numa_cpus\.\d{1,4}", _CPUS),
    (r"hw:numa_mem\.\d{1,4}", _number(1)),
    (r"quota:\w+_shares_level", _one_of("custom high normal low")),
    (r"quota:\w+", _number()),
    (r"resources[\w-]{0,64}:.+", _number()),
    (r"trait[\w-]{0,64}:[A-Z][A-Z0-9_]*", _one_of("required forbidden")),
)
_RESOURCE = re.compile(r"resources[\w-]{0,64}:(.+)", re.ASCII)
_CHECKED_NAMESPACE = re.compile(
    r"(accel|hw|hw_rng|hw_video|os|pci_passthrough|quota|trust|resources[\w-]{0,64}|trait[\w-]{0,64}):.*", re.ASCII
)


def check_extra_spec(name: str, value: str) -> None:
    """Raise BadInput for a name that its namespace does not have, or for a value that the name does not allow."""
    values = _values_of(name)
    if values is None:
        raise BadInput(f"Validation failed; extra spec '{name}' does not appear to be a valid extra spec.")
    if not values.has(value):
        raise BadInput(
            f"Validation failed; '{value[:60]}' is no value of extra spec '{name}': it is {values.described}."
        )


def _values_of(name: str) -> Values | None:
    """What values a name may have; None for a name that does not exist in a namespace that is checked."""
    if name in _NAMES:
        return _NAMES[name]
    resource = _RESOURCE.fullmatch(name)
    if resource and not is_resource_class(resource[1]):
        return None
    for pattern, values in _FORMS:
        if re.fullmatch(pattern, name, re.ASCII):
            return values
    return None if _CHECKED_NAMESPACE.fullmatch(name) else _TEXT
