# SPDX-License-Identifier: Apache-2.0
"""The client of a cloud: what commands ask of it. Start reading at `interface.py`.

| module | what it holds |
| --- | --- |
| `interface.py` | what can be asked, and the records that come back |
| `rpc_client.py` | finds the cloud: clouds.yaml, a broker, or a running `roost dev`; asks a conductor, by messages |
| `api_client.py` | asks the API of a cloud |
| `api_session.py` | calls to an API: signs in, finds the services, makes errors of refusals |
| `cloud_access.py` | addresses and credentials, from clouds.yaml or OS_* |
| `waiting.py` | waits until a change is complete, and says what became of it |
"""
