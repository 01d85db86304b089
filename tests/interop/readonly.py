# SPDX-License-Identifier: Apache-2.0
"""The right to SELECT is enough: the log of the database server shows what Roost's user did."""

import configparser
from collections import Counter

from sqlalchemy.engine import make_url
from tests.interop.nova_cloud import running_cloud, running_roost
from tests.nova_stack.api_client import Nova, boot

COMPUTES, BOOTS = 4, 8
USER, PASSWORD = "roost_reader", "only-reads"
READING = {"SELECT", "SHOW", "SET", "START", "BEGIN", "COMMIT", "ROLLBACK"}
"""How statements begin that change nothing; SET GLOBAL needs a right that this user does not have."""


def run(checks, folder):
    """Boot, resize and delete servers while Roost's database user may only read."""
    with running_cloud(folder, computes=COMPUTES) as cloud:
        create_reader(cloud)
        options = f"cell_database_user = {USER}\ncell_database_password = {PASSWORD}\n"
        with running_roost(cloud, options=options, more=reader_connections(cloud)):
            users = database_users(cloud.dir / "nova.conf", cloud.dir / "roost1.conf")
            checks.see("Roost is given no other user of the databases", users == {USER}, ", ".join(sorted(users)))
            result = boot(cloud, BOOTS, "1,512,1", parallel=4)
            checks.see(f"{BOOTS} boots with a user that may only SELECT", result["ok"], dict(result["status"]))
            resize(checks, Nova(cloud), result["servers"][0])
        judge(checks, read_statements(cloud))


def reader_connections(cloud):
    """Sections that replace the users of nova.conf: whatever Roost opens, it opens as the reader."""
    own, api = (cloud.env["databases"][name] for name in ("nova_cell0", "nova_api"))
    sections = {"database": own, "api_database": api}
    as_reader = {name: url.replace("root@", f"{USER}:{PASSWORD}@") for name, url in sections.items()}
    return "".join(f"[{name}]\nconnection = {url}\n" for name, url in as_reader.items())


def database_users(*files):
    """Users of the databases in config files, the later count; that of cell mappings if none replaces it."""
    config = configparser.RawConfigParser(strict=False)
    config.read(files)
    addresses = [
        config[name]["connection"] for name in ("database", "api_database") if config.has_option(name, "connection")
    ]
    of_cells = config.get("roost", "cell_database_user", fallback="") or "(of the cell mappings)"
    return {of_cells, *(make_url(each).username for each in addresses)}


def create_reader(cloud):
    """Create the user, and let the server log every statement of all users from now on."""
    cloud.rows("nova_api", f"create user {USER}@'%' identified by '{PASSWORD}'")
    for database in ("nova_api", "nova_cell0", "nova_cell1"):
        cloud.rows("nova_api", f"grant select on {database}.* to {USER}@'%'")
    cloud.rows("nova_api", "set global log_output = 'TABLE'")
    cloud.rows("nova_api", "set global general_log = 1")


def resize(checks, nova, server):
    nova.act(server, "resize", {"flavorRef": nova.flavor("2,1024,2")})
    moved = nova.wait(server, "VERIFY_RESIZE")
    checks.see("a resize, too", moved["flavor"]["vcpus"] == 2)


def read_statements(cloud):
    """User and text of all statements in the log; of prepared ones, what was prepared."""
    rows = cloud.rows(
        "nova_api",
        "select user_host, argument from mysql.general_log where command_type in ('Query', 'Prepare', 'Execute')",
    )
    return [(user, text.decode() if isinstance(text, bytes) else text) for user, text in rows]


def judge(checks, statements):
    mine = [text for user, text in statements if user.startswith(USER)]
    others = [text for user, text in statements if not user.startswith(USER)]
    kinds = Counter(first_word(text) for text in mine)
    checks.see("the log has statements of Roost's user", kinds["SELECT"] > 0, dict(kinds))
    checks.see("and writes of nova's, so it would show writes", any(first_word(text) == "INSERT" for text in others))
    writes = [text for text in mine if not only_reads(text)]
    checks.see("none of Roost's writes or locks", not writes, writes[:3] or f"{len(mine)} statements")


def only_reads(text):
    words = " ".join(text.upper().split())
    locks = any(each in words for each in ("FOR UPDATE", "LOCK IN SHARE MODE", "INTO OUTFILE"))
    return first_word(text) in READING and not words.startswith("SET GLOBAL") and not locks


def first_word(text):
    return text.split(maxsplit=1)[0].upper() if text.strip() else ""
