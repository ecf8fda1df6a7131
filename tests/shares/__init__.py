# SPDX-License-Identifier: Apache-2.0
"""Core, scheduling controls and card in virtual time: what policies promise is what the card does."""
