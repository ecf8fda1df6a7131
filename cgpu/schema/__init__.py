# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of the project and what is compiled from them."""
