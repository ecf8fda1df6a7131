# SPDX-License-Identifier: Apache-2.0
"""The scheduler and a card in virtual time: what policies promise is what the card does."""
