# SPDX-License-Identifier: Apache-2.0
"""Remedies for hosts that the checks of resource amounts and traits reject."""

from __future__ import annotations

from roost.hosts import HostView, capacity
from roost.hosts.capacity import DISABLED_TRAIT, ClassCapacity
from roost.hosts.host_changes import change_host, count_of, enable, name_of, plural, room_remedy
from roost.model.remedy import HostChange, Remedy, RequestChange, disk_changes
from roost.model.request import RequestSpec
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU, resource_class_of

_WORDS = {VCPU: "CPUs", MEMORY_MB: "MiB of memory", DISK_GB: "GB of disk"}
"""Resource class -> what is counted; any other class is its own word."""


def amount_remedy(host: HostView, spec: RequestSpec, resource_class: str) -> Remedy | None:
    """How the amount that the request asks of a resource class can fit on the host."""
    asked, words = spec.amounts[resource_class], _WORDS.get(resource_class, resource_class)
    has = capacity.capacity_of(host, resource_class)
    if has is None or has.limit < 1:
        return _without_class(spec, resource_class, words)
    left, most, step = has.limit - has.allocated, min(has.limit, has.max_unit), int(has.step_size)
    if asked < has.min_unit or asked % step:
        amount = _nearest_unit(has, asked)
        changes = _ask_for(spec, resource_class, amount) if amount <= min(left, most) else ()
        return Remedy(f"ask for {count_of(amount, words)}", changes) if changes else None
    return room_remedy(
        host,
        words,
        asked=asked,
        left=left // step * step,
        most=most // step * step,
        free=lambda amount: _free(host, resource_class, amount),
        ask=lambda amount: _ask_for(spec, resource_class, amount // step * step) if amount >= has.min_unit else (),
    )


def _without_class(spec: RequestSpec, resource_class: str, words: str) -> Remedy | None:
    """A request that asks for nothing of a class that the host has not; None where it cannot do without."""
    keys = _extra_specs_of(spec, resource_class)
    if keys:
        text = f"ask for a flavor without {plural('the extra spec', keys)}"
        return Remedy(text, tuple(RequestChange(f"flavor.extra_specs.{key}", None) for key in keys))
    changes = _ask_for(spec, DISK_GB, 0) if resource_class == DISK_GB else ()
    return Remedy(f"ask for no {words}: boot from a volume", changes) if changes else None


def _nearest_unit(has: ClassCapacity, asked: int) -> int:
    """The largest amount up to `asked` in the units that the host gives out, or else the smallest beyond it."""
    step, least = int(has.step_size), int(has.min_unit)
    lower = asked // step * step
    return lower if lower >= least else -(-max(least, asked) // step) * step


def _free(host: HostView, resource_class: str, amount: int) -> HostChange:
    """The change of the host after which this much less of the class is allocated."""
    if resource_class == MEMORY_MB:
        return change_host(host, "free_ram_mb", host.free_ram_mb + amount)
    if resource_class == DISK_GB:
        return change_host(host, "free_disk_mb", host.free_disk_mb + 1024 * amount)
    if resource_class == VCPU and host.vcpus_used >= amount:
        return change_host(host, "vcpus_used", host.vcpus_used - amount)
    allocated = getattr(host, f"allocated:{resource_class}")
    return change_host(host, f"allocations.{resource_class}", allocated - amount)


def _ask_for(spec: RequestSpec, resource_class: str, amount: int) -> tuple[RequestChange, ...]:
    """Changes after which the request asks for this amount; empty where its flavor does not decide about it."""
    if any(resource_class in group.resources for group in spec.requested_resources):
        return ()
    if keys := _extra_specs_of(spec, resource_class):
        first, *others = (f"flavor.extra_specs.{key}" for key in keys)
        return RequestChange(first, str(amount)), *(RequestChange(each, None) for each in others)
    if resource_class == DISK_GB:
        return disk_changes(spec.flavor, 1024 * amount, counts_root=not spec.is_bfv)
    fields = {VCPU: "flavor.vcpus", MEMORY_MB: "flavor.memory_mb"}
    return (RequestChange(fields[resource_class], amount),) if resource_class in fields else ()


def _extra_specs_of(spec: RequestSpec, resource_class: str) -> list[str]:
    return [key for key in spec.flavor.extra_specs if resource_class_of(key) == resource_class]


def enabling_remedy(host: HostView) -> Remedy:
    """How a disabled host is enabled: in its service, and in its traits where these say that it is disabled."""
    found = enable(host)
    if DISABLED_TRAIT not in host.traits:
        return found
    changes = (*found.changes, change_host(host, "traits", sorted(host.traits - {DISABLED_TRAIT})))
    if host.is_disabled:
        return Remedy(f"{found.text}, which must take the trait {DISABLED_TRAIT} from it, too", changes)
    text = f"take the trait {DISABLED_TRAIT} from {name_of(host)}"
    return Remedy(f"{text}: in a nova cloud, disable it and enable it again while its nova-compute runs", changes)


def traits_remedy(
    host: HostView, spec: RequestSpec, required: frozenset[str], forbidden: frozenset[str]
) -> Remedy | None:
    """How the host can have the required traits and none of the forbidden ones.

    Custom traits an operator gives to a host; of others the host says itself, so the flavor must not ask for them.
    """
    missing, present = sorted(required - host.traits), sorted(forbidden & host.traits)
    extra_specs = [key for key in spec.flavor.extra_specs if key.startswith("trait:")]
    asking = [key for key in extra_specs if key.removeprefix("trait:") in (*missing, *present)]
    parts = [f"give {name_of(host)} {plural('the trait', missing)}"] if missing else []
    parts += [f"take {plural('the trait', present)} from {name_of(host)}"] if present else []
    text = " and ".join(parts)
    if len(asking) == len(missing) + len(present):  # nothing else asks for them
        text += f", or ask for a flavor without {plural('the extra spec', asking)}"
        if not all(each.startswith("CUSTOM_") for each in (*missing, *present)):
            return Remedy(text, tuple(RequestChange(f"flavor.extra_specs.{key}", None) for key in asking))
    else:
        text += ", or use a flavor and an image that do not need this"
    return Remedy(text, (change_host(host, "traits", sorted((host.traits | required) - forbidden)),))
