# SPDX-License-Identifier: Apache-2.0
"""The client of a cloud: what commands ask of it. Start reading at `interface.py`.

| module | what it holds |
| --- | --- |
| `interface.py` | what can be asked, and the records that come back |
| `opening.py` | finds the cloud: in clouds.yaml, by the broker of the configuration, or a running `roost dev` |
| `rpc_client.py` | asks a conductor, by messages |
| `api_client.py` | asks the API of a cloud |
| `api_catalogue.py` | flavors, images, aggregates and server groups, over the API |
| `api_session.py` | calls to an API: signs in, finds the services |
| `api_problems.py` | refusals of an API as errors |
| `cloud_access.py` | addresses and credentials, from clouds.yaml or OS_* |
| `sign_in.py` | the body of a sign-in |
| `waiting.py` | waits until a change is complete, and says what became of it |
"""
