# SPDX-License-Identifier: Apache-2.0
"""Package of the stand-in for nova."""
