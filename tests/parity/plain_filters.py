# SPDX-License-Identifier: Apache-2.0
"""The filters that `plain.py` does not have, as plain loops: slow, obvious, written from the specification.

Each takes one host (a HostView, read by attribute), the request and the options of the filter, and says whether
the host passes. Where nova raises, the loop raises Raises with the name of nova's class. Nothing here looks at
`roost.filters`. NUMA cells and PCI devices are in `plain_numa.py`.
"""

from __future__ import annotations

import ipaddress
import json
from typing import Any

from tests.parity import plain_numa

HOST_ATTRIBUTES = """
    host nodename uuid total_usable_ram_mb free_ram_mb total_usable_disk_gb free_disk_mb disk_mb_used vcpus_total
    vcpus_used cpu_allocation_ratio ram_allocation_ratio disk_allocation_ratio num_instances num_io_ops failed_builds
    host_ip hypervisor_type hypervisor_version hypervisor_hostname cpu_info supported_instances stats metrics
    aggregates instances service pci_stats numa_topology limits allocation_candidates cell_uuid
""".split()


class Raises(Exception):
    """Nova raises an error of this class here."""


# --- aggregates (spec/filters.md 3) ------------------------------------------------------------------


def raw_values(host: Any, key: str) -> set[str]:
    return {aggregate.metadata[key] for aggregate in host.aggregates if key in aggregate.metadata}


def merged(host: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for aggregate in host.aggregates:
        for key, value in aggregate.metadata.items():
            for piece in value.split(","):
                found.setdefault(key, set()).add(piece.strip())
    return found


def smallest(host: Any, key: str, default: float, convert: Any) -> float:
    numbers = []
    for value in raw_values(host, key):
        try:
            numbers.append(convert(value))
        except ValueError:
            return default
    if any(number != number for number in numbers):
        return float("nan")
    return min(numbers, default=default)


# --- requirement expressions (4) ---------------------------------------------------------------------


def match(value: Any, requirement: str) -> bool:
    words = requirement.split()
    if not words or words[0] not in [*NUMERIC, *TEXTUAL, "<in>", "<all-in>", "<or>"]:
        return value == requirement
    if value is None:
        return False
    operator, operands = words[0], words[1:]
    if operator == "<or>":
        return is_one_of(value, operands)
    if not operands:
        return False
    if operator == "<all-in>":
        return all(operand in value for operand in operands)
    if operator == "<in>":
        return operands[0] in value
    if operator in TEXTUAL:
        return COMPARE[operator.removeprefix("s")](value, operands[0])
    try:
        return COMPARE[">=" if operator == "=" else operator](float(value), float(operands[0]))
    except ValueError:
        raise Raises("ValueError") from None


NUMERIC = ["=", "==", "!=", ">=", "<="]
TEXTUAL = ["s==", "s!=", "s<", "s<=", "s>", "s>="]
COMPARE: dict[str, Any] = {
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}


def is_one_of(value: Any, words: list[str]) -> bool:
    """Operand, keyword, operand, ...: whatever the keywords are."""
    if not words:
        raise Raises("IndexError")
    return any(value == words[at] for at in range(0, len(words), 2))


# --- CPUs, memory, disk (5.1 to 5.3, 5.17) -----------------------------------------------------------


def aggregate_core(host: Any, spec: Any, options: Any) -> bool:
    if not host.vcpus_total:
        return True
    ratio = smallest(host, "cpu_allocation_ratio", host.cpu_allocation_ratio, float)
    limit = host.vcpus_total * ratio
    if limit > 0 and spec.flavor.vcpus > host.vcpus_total:
        return False
    return limit - host.vcpus_used >= spec.flavor.vcpus


def aggregate_disk(host: Any, spec: Any, options: Any) -> bool:
    requested = 1024 * (spec.flavor.root_gb + spec.flavor.ephemeral_gb) + spec.flavor.swap
    total = 1024 * host.total_usable_disk_gb
    if total < requested:
        return False
    limit = total * smallest(host, "disk_allocation_ratio", host.disk_allocation_ratio, float)
    return limit - (total - host.free_disk_mb) >= requested


def aggregate_ram(host: Any, spec: Any, options: Any) -> bool:
    requested, total = spec.flavor.memory_mb, host.total_usable_ram_mb
    if total < requested:
        return False
    limit = total * smallest(host, "ram_allocation_ratio", host.ram_allocation_ratio, float)
    return limit - (total - host.free_ram_mb) >= requested


def exact_core(host: Any, spec: Any, options: Any) -> bool:
    return bool(host.vcpus_total) and spec.flavor.vcpus == host.vcpus_total - host.vcpus_used


def exact_disk(host: Any, spec: Any, options: Any) -> bool:
    return 1024 * (spec.flavor.root_gb + spec.flavor.ephemeral_gb) + spec.flavor.swap == host.free_disk_mb


def exact_ram(host: Any, spec: Any, options: Any) -> bool:
    return spec.flavor.memory_mb == host.free_ram_mb


# --- aggregates keep hosts for somebody (5.4 to 5.7) -------------------------------------------------


def image_isolation(host: Any, spec: Any, options: Any) -> bool:
    if spec.image is None:
        return True
    known = ["os_distro", "hw_architecture", "hw_boot_menu", "hw_cpu_cores"]  # of those that are generated
    namespace = options.aggregate_image_properties_isolation_namespace
    for key, values in merged(host).items():
        prefix = f"{namespace}{options.aggregate_image_properties_isolation_separator}"
        if namespace and not key.startswith(prefix):
            continue
        if key not in known:
            continue
        value = spec.image.properties.get(key)
        if value and str(value) not in values:
            return False
    return True


def tenancy(host: Any, spec: Any, options: Any) -> bool:
    named = set()
    for key, values in merged(host).items():
        if key.startswith("filter_tenant_id"):
            named |= values
    return not named or spec.project_id in named


def aggregate_extra_specs(host: Any, spec: Any, options: Any) -> bool:
    for key, requirement in spec.flavor.extra_specs.items():
        if ":" in key:
            scope, key = key.split(":", 1)
            if scope != "aggregate_instance_extra_specs":
                continue
        outcomes = [outcome(match, value, requirement) for value in merged(host).get(key, set())]
        if True in outcomes:
            # One value is enough. nova asks them in no certain order, so whether it meets a bad one is chance.
            if any(isinstance(each, Raises) for each in outcomes):
                raise Chance(str(next(each for each in outcomes if isinstance(each, Raises))))
            continue
        for each in outcomes:
            if isinstance(each, Raises):
                raise each
        return False
    return True


class Chance(Raises):
    """Nova raises an error of this class here, or passes the host: that depends on the order of a set."""


def outcome(call: Any, *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Raises as error:
        return error


def aggregate_type_affinity(host: Any, spec: Any, options: Any) -> bool:
    names = set()
    for value in raw_values(host, "instance_type"):
        names |= {piece.strip() for piece in value.split(",")}
    return not names or spec.flavor.name in names


def type_affinity(host: Any, spec: Any, options: Any) -> bool:
    return all(instance.flavor_id == spec.flavor.id for instance in host.instances.values())


# --- what the host is (5.10, 5.18) -------------------------------------------------------------------


def compute_capabilities(host: Any, spec: Any, options: Any) -> bool:
    wanted = dict(spec.flavor.extra_specs)
    replaced = {}
    for key, requirement in wanted.items():
        if key == "hw:maxphysaddr_bits":
            replaced["capabilities:cpu_info:maxphysaddr:bits"] = f">= {requirement}"
        else:
            replaced[key] = requirement
    for key, requirement in replaced.items():
        parts = key.split(":")
        if len(parts) == 1:
            if key not in HOST_ATTRIBUTES and key not in host.stats:
                continue
        elif parts[0] != "capabilities":
            continue
        else:
            parts = parts[1:]
        value: Any = host
        for part in parts:
            value = step_into(value, part, host)
            if value is None:
                break
        if value is None or not match(str(value), requirement):
            return False
    return True


def step_into(value: Any, part: str, host: Any) -> Any:
    if value is host:
        found = getattr(host, part) if part in HOST_ATTRIBUTES else None
        if isinstance(found, tuple):
            found = list(found)
        return host.stats.get(part) if found is None else found
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value.get(part) if hasattr(value, "get") else None


def image_properties(host: Any, spec: Any, options: Any) -> bool:
    properties = spec.image.properties if spec.image else {}
    architecture = properties.get("hw_architecture") or options.image_properties_default_architecture
    wanted = [architecture, properties.get("img_hv_type"), properties.get("hw_vm_mode")]
    wanted = [each for each in wanted if each]
    if not wanted:
        return True
    for triple in host.supported_instances:
        if all(each in triple for each in wanted) and version_fits(host, properties) and bits_fit(host, properties):
            return True
    return False


def version_fits(host: Any, properties: Any) -> bool:
    wanted = properties.get("img_hv_requested_version")
    if not wanted or not host.hypervisor_version:
        return True
    rest, numbers = host.hypervisor_version, []
    while rest:
        numbers.append(rest % 1000)
        rest //= 1000
    has = (numbers[::-1] + [0] * 9)[:9]
    for predicate in wanted.split(","):
        text = predicate.strip()
        symbol = text[:2] if text[:2] in ("<=", ">=", "==", "!=") else text[:1]
        asked = ([int(part) for part in text[len(symbol) :].strip().split(".")] + [0] * 9)[:9]
        if not COMPARE[symbol](has, asked):
            return False
    return True


def bits_fit(host: Any, properties: Any) -> bool:
    wanted = properties.get("hw_maxphysaddr_bits")
    info = host.cpu_info
    if isinstance(info, str):
        try:
            info = json.loads(info)
        except ValueError:
            return True
    try:
        has = float(info["maxphysaddr"]["bits"])
    except (TypeError, KeyError, ValueError):
        return True
    return not wanted or has >= wanted


# --- hints and groups (5.12 to 5.16) -----------------------------------------------------------------


def hint(spec: Any, name: str, default: Any = None) -> Any:
    if name not in spec.scheduler_hints:
        return default
    values = list(spec.scheduler_hints[name])
    return values[0] if len(values) == 1 else values


def different_host(host: Any, spec: Any, options: Any) -> bool:
    wanted = hint(spec, "different_host")
    wanted = [wanted] if isinstance(wanted, str) else wanted
    return not wanted or not any(uuid in host.instances for uuid in wanted)


def same_host(host: Any, spec: Any, options: Any) -> bool:
    wanted = hint(spec, "same_host")
    if not wanted:
        return True
    wanted = [wanted] if isinstance(wanted, str) else wanted
    return any(uuid in host.instances for uuid in wanted)


def cidr_affinity(host: Any, spec: Any, options: Any) -> bool:
    near, cidr = hint(spec, "build_near_host_ip"), hint(spec, "cidr", "/24")
    if not near:
        return True
    if isinstance(near, list) or isinstance(cidr, list):
        raise Raises("TypeError")
    try:
        network = ipaddress.ip_network(near + cidr, strict=False)
        address = ipaddress.ip_address(host.host_ip or "")
    except ValueError:
        raise Raises("AddrFormatError") from None
    return address.version == network.version and address in network


def affinity(policy: str) -> Any:
    def loop(host: Any, spec: Any, options: Any) -> bool:
        group = spec.instance_group
        return group is None or group.policy != policy or not group.hosts or host.host in group.hosts

    return loop


def anti_affinity(host: Any, spec: Any, options: Any) -> bool:
    group = spec.instance_group
    if group is None or group.policy != "anti-affinity":
        return True
    if spec.instance_uuid in host.instances:
        return True
    most = int(group.rules.get("max_server_per_host", 1))
    return len([uuid for uuid in host.instances if uuid in group.members]) < most


def old_anti_affinity(host: Any, spec: Any, options: Any) -> bool:
    group = spec.instance_group
    return group is None or group.policy != "legacy" or host.host not in group.hosts


# --- limits and lists (5.19 to 5.21, 5.23, 5.27) -----------------------------------------------------


def io_ops(host: Any, spec: Any, options: Any) -> bool:
    return host.num_io_ops < options.max_io_ops_per_host


def aggregate_io_ops(host: Any, spec: Any, options: Any) -> bool:
    return host.num_io_ops < smallest(host, "max_io_ops_per_host", options.max_io_ops_per_host, int)


def num_instances(host: Any, spec: Any, options: Any) -> bool:
    return host.num_instances < options.max_instances_per_host


def aggregate_num_instances(host: Any, spec: Any, options: Any) -> bool:
    return host.num_instances < smallest(host, "max_instances_per_host", options.max_instances_per_host, int)


def isolated_hosts(host: Any, spec: Any, options: Any) -> bool:
    restrict = options.restrict_isolated_hosts_to_isolated_images
    is_host = host.host in options.isolated_hosts
    if not options.isolated_images:
        return not restrict or not is_host
    is_image = spec.image is not None and spec.image.id in options.isolated_images
    return is_image == is_host if restrict else not is_image or is_host


def metrics(host: Any, spec: Any, options: Any) -> bool:
    if host.metrics is None:
        raise Raises("TypeError")
    names = [metric["name"] for metric in host.metrics]
    for entry in options.weight_setting:
        if "=" not in entry:
            continue
        name, ratio = entry.split("=", 1)
        try:
            float(ratio)
        except ValueError:
            continue
        if name and name not in names:
            return False
    return True


def trusted(host: Any, spec: Any, options: Any) -> bool:
    wanted = spec.flavor.extra_specs.get("trust:trusted_host")
    return not wanted or host.trust_level == wanted


# --- JSON queries (5.22) -----------------------------------------------------------------------------


def json_query(host: Any, spec: Any, options: Any) -> bool:
    text = hint(spec, "query")
    if not text:
        return True
    if isinstance(text, list):
        raise Raises("TypeError")
    try:
        query = json.loads(text)
    except json.JSONDecodeError:
        raise Raises("JSONDecodeError") from None
    result = evaluate(query, host)
    return any(result) if isinstance(result, list) else bool(result)


def evaluate(query: Any, host: Any) -> Any:
    if not query:
        return True
    if isinstance(query, (str, dict)):
        raise Raises("KeyError")
    if not isinstance(query, list) or isinstance(query[0], (list, dict)):
        raise Raises("TypeError")
    if query[0] not in ("=", "<", ">", "<=", ">=", "in", "not", "or", "and"):
        raise Raises("KeyError")
    arguments = []
    for each in query[1:]:
        if isinstance(each, list):
            each = evaluate(each, host)
        elif isinstance(each, str):
            each = text_argument(each, host)
        if each is not None:
            arguments.append(each)
    return apply(query[0], arguments)


def text_argument(text: str, host: Any) -> Any:
    if not text:
        return None
    if text[0] != "$":
        return text
    names = text[1:].split(".")
    value = getattr(host, names[0]) if names[0] in HOST_ATTRIBUTES else None
    for name in names[1:]:
        if value is None:
            return None
        if not hasattr(value, "get"):
            raise Raises("AttributeError")
        value = value.get(name)
    return value


def apply(operator: str, arguments: list[Any]) -> Any:
    if operator == "not":
        return [not each for each in arguments]
    if operator == "or":
        return any(arguments)
    if operator == "and":
        return all(arguments)
    if len(arguments) < 2:
        return False
    first, others = arguments[0], arguments[1:]
    if operator == "in":
        return first in others
    compare = COMPARE["==" if operator == "=" else operator]
    try:
        return all(compare(first, other) for other in others)
    except TypeError:
        raise Raises("TypeError") from None


FILTERS: dict[str, Any] = {
    "AggregateCoreFilter": aggregate_core,
    "AggregateDiskFilter": aggregate_disk,
    "AggregateImagePropertiesIsolation": image_isolation,
    "AggregateInstanceExtraSpecsFilter": aggregate_extra_specs,
    "AggregateIoOpsFilter": aggregate_io_ops,
    "AggregateMultiTenancyIsolation": tenancy,
    "AggregateNumInstancesFilter": aggregate_num_instances,
    "AggregateRamFilter": aggregate_ram,
    "AggregateTypeAffinityFilter": aggregate_type_affinity,
    "ComputeCapabilitiesFilter": compute_capabilities,
    "DifferentHostFilter": different_host,
    "ExactCoreFilter": exact_core,
    "ExactDiskFilter": exact_disk,
    "ExactRamFilter": exact_ram,
    "GroupAffinityFilter": affinity("legacy"),
    "GroupAntiAffinityFilter": old_anti_affinity,
    "ImagePropertiesFilter": image_properties,
    "IoOpsFilter": io_ops,
    "IsolatedHostsFilter": isolated_hosts,
    "JsonFilter": json_query,
    "MetricsFilter": metrics,
    "NUMATopologyFilter": plain_numa.numa_topology,
    "NumInstancesFilter": num_instances,
    "PciPassthroughFilter": plain_numa.pci_passthrough,
    "SameHostFilter": same_host,
    "ServerGroupAffinityFilter": affinity("affinity"),
    "ServerGroupAntiAffinityFilter": anti_affinity,
    "SimpleCIDRAffinityFilter": cidr_affinity,
    "TrustedFilter": trusted,
    "TypeAffinityFilter": type_affinity,
}
