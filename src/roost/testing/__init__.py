# SPDX-License-Identifier: Apache-2.0
"""Test support for plugin authors: builders of tables and requests, and checks of the plugin contract.

    from roost.testing import check_filter, make_hosts, make_spec

    hosts = make_hosts(free_ram_mb=[512, 4096])
    assert MyFilter().mask(hosts, make_spec(memory_mb=1024)).tolist() == [False, True]
    check_filter(MyFilter())

`roost.testing.strategies` has hypothesis strategies of tables and requests. Start reading at `contract.py`.
"""

from roost.testing.contract import check_filter, check_weigher, make_hosts, make_records, make_spec

__all__ = ["check_filter", "check_weigher", "make_hosts", "make_records", "make_spec"]
