# SPDX-License-Identifier: Apache-2.0
"""The request as plugins of either era expect it: a dict up to Liberty, an object since Mitaka."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from roost.model.lazy import IdentityCache
from roost.model.legacy import as_filter_properties
from roost.model.pci import PciRequest
from roost.model.request import RequestSpec

_NAMES_OF_THE_DICT = frozenset({"filter_properties", "weight_properties", "weighing_properties"})
"""What plugins call the argument that was a dict once. Some kept the name when it had become an object."""


@dataclass(frozen=True)
class RequestContext:
    """On whose behalf something is asked."""

    user_id: str | None = None
    project_id: str | None = None
    is_admin: bool = False
    request_id: str | None = None
    read_deleted: str = "no"
    roles: Sequence[str] = ()
    auth_token: str | None = None
    """Never there: nobody's token is handed to a plugin."""
    service_catalog: Sequence[Any] = ()
    remote_address: str | None = None
    timestamp: Any = None

    @property
    def tenant(self) -> str | None:
        """The project, as it was called first."""
        return self.project_id

    @property
    def user(self) -> str | None:
        """The user, as it was called first."""
        return self.user_id

    def elevated(self, read_deleted: str | None = None) -> RequestContext:
        """The same, with the rights of an administrator."""
        return replace(self, is_admin=True, read_deleted=read_deleted or self.read_deleted)

    def to_dict(self) -> dict[str, Any]:
        """All of it, as plain data."""
        return asdict(self)


class TriedHost(NamedTuple):
    """A host that was tried before, as nova's list of them has it."""

    host: str
    hypervisor_hostname: str


class PciRequests(list[PciRequest]):
    """What is asked for of PCI devices, as nova's object has it."""

    @property
    def requests(self) -> list[PciRequest]:
        """The requests."""
        return self


class NovaRequest(RequestSpec):
    """The request with lists where nova has lists: plugins add to them, and compare them with others."""

    original: RequestSpec

    @classmethod
    def of(cls, spec: RequestSpec) -> NovaRequest:
        """A view of a request that is known to be good."""
        lists = {name: list(listed) for name in _LISTS if (listed := getattr(spec, name)) is not None}
        parts: dict[str, Any] = {
            "scheduler_hints": {name: list(values) for name, values in spec.scheduler_hints.items()},
            "pci_requests": PciRequests(spec.pci_requests),
            "original": spec,
        }
        if group := spec.instance_group:
            members, hosts = list(group.members), list(group.hosts)
            parts["instance_group"] = group.updated(members, hosts)  # type: ignore[arg-type]
        if retry := spec.retry:
            parts["retry"] = _with(retry, hosts=[TriedHost(*pair) for pair in retry.hosts])
        view: NovaRequest = _with(spec, cls, **lists, **parts)
        return view

    @property
    def _context(self) -> RequestContext:
        return RequestContext(self.user_id, self.project_id)

    def __getitem__(self, key: str) -> Any:
        """Also what only the dict had, for plugins that call the argument by a name of their own."""
        return self._context if key == "context" else super().__getitem__(key)

    def __deepcopy__(self, memo: dict[int, Any]) -> NovaRequest:
        changeable = (*_LISTS, "scheduler_hints", "flavor")
        twin: NovaRequest = _with(self, **{name: copy.deepcopy(getattr(self, name), memo) for name in changeable})
        return twin

    @property
    def is_rebuild(self) -> bool:
        """Only asks whether the instance may stay where it is with another image."""
        return self.original.is_rebuild


_LISTS = (
    "ignore_hosts",
    "force_hosts",
    "force_nodes",
    "requested_resources",
    "security_groups",
    "requested_networks",
)


def _with(record: Any, kind: type[Any] | None = None, **fields: Any) -> Any:
    """A copy whose fields need not be of the types that the record insists on."""
    twin = object.__new__(kind or type(record))
    object.__setattr__(twin, "__dict__", {**record.__dict__, **fields})
    return twin


class FilterProperties(dict[str, Any]):
    """The dict of the older releases, which also has the attributes of today's request."""

    def __init__(self, spec: RequestSpec) -> None:
        super().__init__(as_filter_properties(spec))
        self["context"] = RequestContext(spec.user_id, spec.project_id)
        self["config_options"] = dict(spec.config_options)
        self.spec = NovaRequest.of(spec)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copying asks for such names before there is a request
            raise AttributeError(name)
        return getattr(self.spec, name)

    def __missing__(self, key: str) -> Any:
        return self.spec[key]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (isinstance(key, str) and key in self.spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> FilterProperties:
        twin = FilterProperties(self.spec.original)  # which nobody can change
        twin.clear()
        twin.update(copy.deepcopy(dict(self), memo))
        return twin

    def get(self, key: str, default: Any = None) -> Any:
        """The member of the dict, or the attribute of the request where it has a value, or else the default."""
        return super().get(key, default) if super().__contains__(key) else self.spec.get(key, default)


_DICTS = IdentityCache[FilterProperties](most=64)
"""What one plugin writes into the dict, the next one reads: it is the same for all that are asked about a request."""
_OBJECTS = IdentityCache[NovaRequest](most=64)


def as_dict(spec: RequestSpec) -> FilterProperties:
    """The request in the older form."""
    return _DICTS.get(spec) or _DICTS.put(spec, FilterProperties(spec))


def as_object(spec: RequestSpec) -> NovaRequest:
    """The request in the form since Mitaka."""
    return _OBJECTS.get(spec) or _OBJECTS.put(spec, NovaRequest.of(spec))


def as_ours(request: Any) -> Any:
    """The request itself, whichever form a plugin has in hand."""
    if isinstance(request, FilterProperties):
        return request.spec.original
    return request.original if isinstance(request, NovaRequest) else request


def wants_dict(plugin: type, *methods: str) -> bool:
    """Whether one of these methods, as the plugin itself wrote it, calls an argument as the older releases did."""
    written = [each for each in plugin.__mro__ if each.__module__.partition(".")[0] not in ("roost", "builtins")]
    functions = [vars(each)[name] for each in written for name in methods if name in vars(each)]
    return any(not _NAMES_OF_THE_DICT.isdisjoint(_arguments_of(each)) for each in functions)


def _arguments_of(function: Any) -> Iterable[str]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # something that can be called, and does not say how
        return ()
