"""Algorithms of collectives, each of which writes the schedule of one rank. They depend on ranks and bytes, not on
networks.
"""
