# SPDX-License-Identifier: Apache-2.0
"""PCI requests of an instance, and the aliases that a flavor requests devices by."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from roost.errors import BadInput, FieldError, nearest
from roost.model.fields import (
    MAPPING,
    NAMES,
    OPTIONAL_TEXT,
    TEXT,
    Amount,
    Checked,
    Flag,
    ListOf,
    MappingOf,
    OptionalText,
    Record,
    refuse_unknown,
)
from roost.model.flavor import AttributesAsItems, Flavor
from roost.model.image import Image
from roost.model.kinds import MOST, FrozenDict, Kind, OneOf, OrNull, Parser, String, shown
from roost.model.message_fields import FromMessage

Property = str | int | tuple[str, ...] | None
"""Value of a key of a device pool, or the value that a request wants; None if there is none."""

PCI_POLICIES = ("legacy", "required", "preferred", "socket")
"""NUMA affinity policies: how close a device must be to the instance's NUMA nodes; `legacy` by default."""

DEVICE_TYPES = ("type-PCI", "type-PF", "type-VF")

ALIAS_EXTRA_SPEC = "pci_passthrough:alias"
POLICY_EXTRA_SPEC = "hw:pci_numa_affinity_policy"

PLACEMENT_KEYS = frozenset({"resource_class", "traits", "rp_uuids"})
"""Keys of a request that only placement matches; they are ignored when pools are matched."""

_EXPLICIT_DEVICE_TYPES = ("type-PF", "vdpa")
_TRUE_WORDS = frozenset({"1", "t", "true", "on", "y", "yes"})
_FALSE_WORDS = frozenset({"0", "f", "false", "off", "n", "no"})


class PciAliasError(BadInput):
    """An alias, or a flavor's use of one, that cannot be used. `nova_type` names the error nova would raise."""

    code = "roost.bad_input.pci_alias"

    def __init__(self, message: str, hint: str = "", nova_type: str = "PciInvalidAlias") -> None:
        super().__init__(message, hint)
        self.nova_type = nova_type


class WantedProperty(Kind[Property]):
    """The kind of a wanted device property: a text, one of several texts, or None."""

    def strict(self, value: Any, field: str) -> Property:
        """A text, None, or a tuple of non-empty texts."""
        is_list = isinstance(value, (list, tuple))
        found: Property = _TEXTS.strict(value, field) if is_list else OPTIONAL_TEXT.strict(value, field)
        return found

    def lenient(self, value: Any, field: str) -> Property:
        """A scalar, None, or a list of scalars."""
        is_list = isinstance(value, (list, tuple))
        found: Property = NAMES.lenient(value, field) if is_list else OPTIONAL_TEXT.lenient(value, field)
        return found


class _Policy(OneOf):
    """A NUMA affinity policy."""

    def strict(self, value: Any, field: str) -> str:
        """One of the policies."""
        return super().strict(_ANY_TEXT.strict(value, field), field)


_ANY_TEXT = String(may_be_empty=True)
_TEXTS = ListOf(TEXT)
_ALTERNATIVES = ListOf(MappingOf(WantedProperty()))
_NUMA_POLICY = OrNull(_Policy(PCI_POLICIES, "is no policy"))


@dataclass(frozen=True)
class PciRequest(Checked, FromMessage, AttributesAsItems):
    """A request for `count` PCI devices of one kind, for one instance."""

    count: Amount = 1
    spec: Annotated[tuple[Mapping[str, Property], ...], _ALTERNATIVES] = ()
    """Alternatives: a device matches if it has all properties of one of them. {} matches any device, () none."""
    numa_policy: Annotated[str | None, _NUMA_POLICY] = None
    """One of PCI_POLICIES; None means legacy."""
    alias_name: OptionalText = None
    request_id: OptionalText = None
    """Prefix of the names of this request's groups in an allocation candidate."""
    is_from_port: Flag = False
    """Made for a network port: allocation candidates do not cover its devices."""
    requester_id: OptionalText = None
    """Uuid of the port it was made for."""

    unheld: ClassVar[Mapping[str, Any]] = MappingProxyType({"is_new": False})

    def __hash__(self) -> int:
        return hash((self.count, self.numa_policy, self.request_id, self.alternatives))

    @property
    def policy(self) -> str:
        """The NUMA affinity policy that applies: numa_policy, or legacy."""
        return self.numa_policy or "legacy"

    @cached_property
    def alternatives(self) -> tuple[tuple[tuple[str, Property], ...], ...]:
        """The alternatives in the form compared with pools: lowercase, without keys that only placement matches."""
        return tuple(
            tuple(sorted((key, without_case(value)) for key, value in each.items() if key not in PLACEMENT_KEYS))
            for each in self.spec
        )

    @cached_property
    def excluded_device_types(self) -> tuple[str, ...]:
        """Device types that only requests naming them may get, and that this request does not name."""
        requested = {dict(each).get("dev_type") for each in self.alternatives}
        return tuple(kind for kind in _EXPLICIT_DEVICE_TYPES if kind.lower() not in requested)

    @cached_property
    def wants_remote_managed(self) -> bool:
        """Whether it requests devices managed by a SmartNIC, which no other request may get."""
        return any(is_true_property(dict(each).get("remote_managed")) for each in self.alternatives)


def pci_request_from_json(data: Any, where: str = "") -> PciRequest:
    """A request from a JSON object; values inside `spec` become text, null the text "None"."""
    try:
        plain = dict(MAPPING.strict(data, ""))
        refuse_unknown(plain, _REQUEST.kinds)
        if "spec" not in plain:
            raise FieldError("spec", "is missing", "list the properties of the wanted devices")
        return _REQUEST.read(plain | {"spec": _WRITTEN_ALTERNATIVES.strict(plain["spec"], "spec")})
    except FieldError as error:
        raise (error.under(where) if where else error) from None


def without_case(value: Property) -> Property:
    """The property in lowercase, for comparisons; values that are not text are unchanged."""
    return value.lower() if isinstance(value, str) else value


def is_true_property(value: Property) -> bool:
    """Whether the property is a text that means true: 1, t, true, on, y or yes, in any case."""
    return isinstance(value, str) and value.lower() in _TRUE_WORDS


class WrittenProperty(Kind[str]):
    """The kind of a property that becomes text: of a number, a boolean, a text, or null (`None`)."""

    mismatch = "is not text"
    remedy = "put it in quotes"

    def strict(self, value: Any, field: str) -> str:
        """The text as Python writes it."""
        if value is None or isinstance(value, (str, int, float)):
            return str(value)
        raise self.refusal(value, field)


_REQUEST = Record(PciRequest)
_WRITTEN_ALTERNATIVES = ListOf(MappingOf(WrittenProperty()))


# --- aliases --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Alias:
    """A name for a kind of device, defined by the operator in option [pci] alias."""

    name: str
    spec: tuple[Mapping[str, str], ...]
    """Alternatives: a device matches if it has all properties of one of them."""
    numa_policy: str | None = None

    def __hash__(self) -> int:
        return hash((self.name, self.numa_policy, len(self.spec)))

    @property
    def device_type(self) -> str | None:
        """The device type, equal in all alternatives; None if not set."""
        return self.spec[0].get("dev_type")


def aliases_from_option(lines: Sequence[str], *, tracked_in_placement: bool = False) -> Mapping[str, Alias]:
    """The aliases of option [pci] alias, by name: one JSON object each.

    A name that is given several times has several alternatives. If placement tracks the devices, only one is
    allowed, and a resource class may replace vendor and product.
    """
    aliases: dict[str, Alias] = {}
    for line in lines:
        alias = _alias_from_line(line, tracked_in_placement)
        earlier = aliases.get(alias.name)
        if earlier and tracked_in_placement:
            raise PciAliasError(f"PCI alias {alias.name!r} is given twice", "placement takes one object per name")
        aliases[alias.name] = _joined(earlier, alias) if earlier else alias
    return FrozenDict(aliases)


def requests_from_flavor(flavor: Flavor, image: Image | None, aliases: Mapping[str, Alias]) -> tuple[PciRequest, ...]:
    """The PCI requests of the flavor's extra spec `pci_passthrough:alias`, one for each `name:count`."""
    policy = affinity_policy(flavor, image)
    listed = flavor.extra_specs.get(ALIAS_EXTRA_SPEC)
    requests = []
    for piece in listed.split(",") if listed else ():
        name, count = _name_and_count(piece)
        if name not in aliases:
            raise PciAliasError(
                f"PCI alias {name!r} is not defined", nearest(name, aliases), "PciRequestAliasNotDefined"
            )
        chosen = policy or aliases[name].numa_policy or "legacy"
        requests.append(PciRequest(count, aliases[name].spec, chosen, alias_name=name))
    return tuple(requests)


def affinity_policy(flavor: Flavor, image: Image | None) -> str | None:
    """The NUMA policy that flavor or image set for all PCI devices of the instance; None if neither does."""
    of_flavor = flavor.extra_specs.get(POLICY_EXTRA_SPEC) or None
    of_image = image.properties.hw_pci_numa_affinity_policy if image else None
    if of_flavor and of_flavor not in PCI_POLICIES:
        problem = f"{POLICY_EXTRA_SPEC}: {shown(of_flavor)} is no policy"
        raise PciAliasError(problem, _POLICY.remedy, "InvalidPCINUMAAffinity")
    if of_flavor and of_image and of_flavor != of_image:
        problem = f"{POLICY_EXTRA_SPEC} of the flavor is {of_flavor}, of the image {of_image}"
        raise PciAliasError(problem, "they must agree, or one of them be left out", "ImagePCINUMAPolicyForbidden")
    return of_flavor or of_image


def _name_and_count(piece: str) -> tuple[str, int]:
    name, _, written = piece.partition(":")
    try:
        count = int(written)
    except ValueError:
        count = -1
    if not name.strip() or not 0 <= count <= MOST:
        raise PciAliasError(f"{ALIAS_EXTRA_SPEC}: {shown(piece)} is no name and count", "write name:count")
    return name.strip(), count


def _alias_from_line(line: str, tracked_in_placement: bool) -> Alias:
    try:
        plain = MAPPING.strict(json.loads(line), "")
        refuse_unknown(plain, _ALIAS_FIELDS)
        parsed = {name: _ALIAS_FIELDS[name](value, name) for name, value in plain.items()}
    except (ValueError, TypeError, RecursionError):
        raise PciAliasError(f"[pci] alias: {shown(line)} is no JSON", "write one object") from None
    except FieldError as error:
        hint = error.hint or "give it a value"
        raise PciAliasError(f"[pci] alias {shown(line)}: {error.message}", hint) from None
    if "name" not in parsed:
        raise PciAliasError(f"[pci] alias: {shown(line)} has no name", "add a name for flavors to use")
    _check_identity(parsed, tracked_in_placement)
    name, policy = parsed.pop("name"), parsed.pop("numa_policy", None)
    spec = {_KEY_IN_SPEC.get(key, key): value for key, value in parsed.items()}
    return Alias(name, (FrozenDict(spec),), policy)


def _check_identity(parsed: Mapping[str, str], tracked_in_placement: bool) -> None:
    """Raise PciAliasError unless vendor and product, or a resource class in placement, identify the devices."""
    if tracked_in_placement and "resource_class" in parsed:
        return
    if "vendor_id" not in parsed or "product_id" not in parsed:
        needed = "vendor_id and product_id" + (", or a resource_class" if tracked_in_placement else "")
        raise PciAliasError(f"PCI alias {parsed['name']!r} says no device", f"give it {needed}")


def _joined(one: Alias, other: Alias) -> Alias:
    if (one.numa_policy or "legacy") != (other.numa_policy or "legacy"):
        raise PciAliasError(f"PCI alias {one.name!r} has two NUMA policies", "give all its objects the same")
    if one.device_type != other.device_type:
        raise PciAliasError(f"PCI alias {one.name!r} has two device types", "give all its objects the same")
    return Alias(one.name, (*one.spec, *other.spec), one.numa_policy)


class _YesOrNo(Kind[str]):
    """The kind of a boolean word."""

    mismatch = "is not a yes or no"
    remedy = "write true or false"

    def strict(self, value: Any, field: str) -> str:
        """`true` or `false`."""
        word = str(value).lower()
        if word not in _TRUE_WORDS | _FALSE_WORDS:
            raise self.refusal(value, field)
        return "true" if word in _TRUE_WORDS else "false"


_POLICY = OneOf(PCI_POLICIES)
_KEY_IN_SPEC = {"device_type": "dev_type"}
_ALIAS_FIELDS: Mapping[str, Parser] = {
    "name": TEXT.strict,
    "vendor_id": TEXT.strict,
    "product_id": TEXT.strict,
    "device_type": OneOf(DEVICE_TYPES).strict,
    "numa_policy": _POLICY.strict,
    "resource_class": TEXT.strict,
    "traits": TEXT.strict,
    "live_migratable": _YesOrNo().strict,
}
"""Key of an alias -> how its value is parsed."""
