"""Hosts are what all ranks say of themselves."""

from __future__ import annotations

from openmrc.collectives.hosts import hosts_of_ranks, identify_host


def test_a_name_parts_this_machine_and_nothing_else():
    assert identify_host("") == identify_host("")
    assert identify_host("a") != identify_host("b")
    assert identify_host("a")[1:] == identify_host("b")[1:]


def test_ranks_that_say_the_same_are_on_one_host_and_those_that_say_nothing_alone():
    here, there = identify_host("a"), list(identify_host("b"))  # as it comes out of a store
    assert hosts_of_ranks({3: here, 0: there, 1: None, 2: list(here), 4: None, 5: there}) == (
        (0, 5),
        (1,),
        (2, 3),
        (4,),
    )
    assert hosts_of_ranks({0: None}) == ((0,),)
