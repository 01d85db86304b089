# SPDX-License-Identifier: Apache-2.0
"""The first users of a cloud for trials: an administrator and a member, with a clouds.yaml that `openstack` reads."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from sqlalchemy import Engine

from roost.clock import Clock
from roost.messages.loopback import write_in_one_step
from roost.records.users import ADMIN, MEMBER, SYSTEM, ProjectStore, UserStore

PASSWORD_BYTES = 16


class FirstUser(NamedTuple):
    """A user that every cloud for trials has."""

    cloud: str
    """Its name in clouds.yaml."""
    name: str
    project: str
    role: str
    is_of_system: bool

    @property
    def roles(self) -> dict[str, str]:
        """Project, or SYSTEM -> role there."""
        return {self.project: self.role} | ({SYSTEM: self.role} if self.is_of_system else {})


FIRST_USERS = (
    FirstUser("roost", "admin", "admin", ADMIN, True),
    FirstUser("roost-member", "member", "demo", MEMBER, False),
)


def make_first_users(engine: Engine, clock: Clock, path: Path, address: str, *, may_reset: bool = True) -> list[str]:
    """Make the users that are missing, and write clouds.yaml, readable for this user alone.

    `path`: of clouds.yaml, where the passwords of earlier starts are kept. `address`: of the API. `may_reset`: a user
    whose password is not in the file gets a new one; otherwise it is left out of the file. Returns who was left out.
    """
    known = _read_passwords(path)
    users, projects = UserStore(engine, clock), ProjectStore(engine, clock)
    existing = {each.name for each in users.list_users()}
    passwords = {each: known[each.cloud] for each in FIRST_USERS if each.cloud in known}
    for each in FIRST_USERS:
        if each.name not in existing:
            passwords.setdefault(each, secrets.token_urlsafe(PASSWORD_BYTES))
            _make_user(users, projects, each, passwords[each])
        elif each not in passwords and may_reset:
            passwords[each] = secrets.token_urlsafe(PASSWORD_BYTES)
            users.set_password(each.name, passwords[each])
    _write_clouds(path, passwords, address)
    return [each.name for each in FIRST_USERS if each not in passwords]


def _make_user(users: UserStore, projects: ProjectStore, wanted: FirstUser, password: str) -> None:
    if wanted.project not in {each.name for each in projects.list_projects()}:
        projects.create(wanted.project)
    users.create(wanted.name, password, wanted.roles)


def _read_passwords(path: Path) -> dict[str, str]:
    """Cloud -> password, as the file has them; empty where there is none, or it was edited into something else."""
    try:
        clouds = yaml.safe_load(path.read_text(encoding="utf-8"))["clouds"]
        return {name: str(each["auth"]["password"]) for name, each in clouds.items()}
    except (OSError, yaml.YAMLError, LookupError, TypeError, AttributeError):
        return {}


def _write_clouds(path: Path, passwords: Mapping[FirstUser, str], address: str) -> None:
    clouds = {user.cloud: _cloud(user, password, address) for user, password in passwords.items()}
    write_in_one_step(path, yaml.safe_dump({"clouds": clouds}, sort_keys=False))


def _cloud(user: FirstUser, password: str, address: str) -> dict[str, Any]:
    return {
        "auth": {
            "auth_url": f"{address}/identity/v3",
            "username": user.name,
            "password": password,
            "project_name": user.project,
            "user_domain_id": "default",
            "project_domain_id": "default",
        },
        "identity_api_version": 3,
        "image_api_version": 2,
    }
