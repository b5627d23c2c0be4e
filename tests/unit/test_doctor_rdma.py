"""The check of `openmrc doctor` for the libraries of RDMA programs: every verdict, for each library."""

from __future__ import annotations

from openmrc.doctor.finding import Verdict
from openmrc.doctor.rdma_programs import check_libraries
from openmrc.errors import DeviceError
from openmrc.programs import LIBRARY, MANAGER, MRC_LIBRARY

ALL = (LIBRARY, MANAGER, MRC_LIBRARY)


def test_all_libraries_are_taken():
    found = list(check_libraries(lambda: dict.fromkeys(ALL)))
    assert [(one.name, one.verdict) for one in found] == [
        ("libibverbs", Verdict.OK),
        ("librdmacm", Verdict.OK),
        ("lib_mrc", Verdict.OK),
    ]


def test_a_library_that_the_loader_does_not_take_is_named_with_its_problem():
    problems = {LIBRARY: None, MANAGER: "another librdmacm.so.1 was loaded", MRC_LIBRARY: None}
    bad = [one for one in check_libraries(lambda: problems) if one.verdict is not Verdict.OK]
    assert [(one.name, one.verdict) for one in bad] == [("librdmacm", Verdict.IMPROVABLE)]
    assert "another librdmacm.so.1 was loaded" in bad[0].sentence


def test_a_library_that_was_not_built_has_its_package():
    (bad,) = [one for one in check_libraries(lambda: dict.fromkeys((LIBRARY, MRC_LIBRARY))) if one.command]
    assert (bad.name, bad.verdict) == ("librdmacm", Verdict.OPTIONAL)
    assert bad.command == "sudo apt install librdmacm-dev && make build"


def test_without_libibverbs_there_is_one_finding():
    def refuse() -> dict[str, str | None]:
        raise DeviceError(0, "no library")

    (only,) = check_libraries(refuse)
    assert (only.name, only.verdict) == ("libibverbs", Verdict.OPTIONAL)
    assert only.command == "sudo apt install libibverbs-dev && make build"
