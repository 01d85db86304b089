# SPDX-License-Identifier: Apache-2.0
"""Part of the tree that answers for nova."""
