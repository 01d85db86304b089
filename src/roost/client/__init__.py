# SPDX-License-Identifier: Apache-2.0
"""The client of a cloud: what commands ask of it. Start reading at `interface.py`.

| module | what it holds |
| --- | --- |
| `interface.py` | what can be asked, and the records that come back |
| `rpc_client.py` | asks a conductor, by messages |
| `opening.py` | finds the cloud: a running `roost dev`, or the broker of the configuration |
| `waiting.py` | waits until a change is complete, and says what became of it |
"""

from roost.client.interface import CloudClient, Plan, Record
from roost.client.opening import OPERATOR, open_client
from roost.client.rpc_client import RpcClient

__all__ = ["OPERATOR", "CloudClient", "Plan", "Record", "RpcClient", "open_client"]
