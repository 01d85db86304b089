# SPDX-License-Identifier: Apache-2.0
"""What no other API has, under /roost/v1: decisions, plans, capacity, hosts, events."""
