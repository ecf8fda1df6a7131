# SPDX-License-Identifier: Apache-2.0
"""Core, levers and simulated card in virtual time: what policies promise is what the card does."""
