# SPDX-License-Identifier: Apache-2.0
"""The conductor: asks the scheduler for hosts, has agents build and move servers, and finishes what others left."""
