"""JUnit XML of a verdict, for continuous integration."""

from __future__ import annotations

from xml.etree import ElementTree as Tree

from tests.harness.results import Results, Verdict

# What XML 1.0 cannot hold; evidence quotes raw records.
_FORBIDDEN = dict.fromkeys((*range(32), *range(55296, 57344), 65534, 65535), "�")
for _allowed in (0x9, 0xA, 0xD):
    del _FORBIDDEN[_allowed]


def to_xml(results: Results) -> bytes:
    """Write one test case per oracle, guard and control; `unknown` becomes an error, `fail` a failure."""
    cases = [
        (
            f"oracle {oracle.number}" if oracle.number else "guard",
            oracle.name,
            oracle.verdict,
            oracle.says,
            oracle.evidence,
        )
        for oracle in results.oracles
    ]
    for control in results.controls:
        verdict = Verdict.PASS if control.must == control.verdict else Verdict.UNKNOWN
        says = f"verdict is {control.verdict}, must be {control.must}"
        cases.append(("control", control.name, verdict, says, ()))
    suite = Tree.Element(
        "testsuite",
        name=_clean(results.claim) or "verdict",
        tests=str(len(cases)),
        failures=str(sum(case[2] is Verdict.FAIL for case in cases)),
        errors=str(sum(case[2] is Verdict.UNKNOWN for case in cases)),
        time=f"{results.duration_s:.3f}",
    )
    for group, name, verdict, says, evidence in cases:
        case = Tree.SubElement(suite, "testcase", classname=group, name=name, time="0")
        text = _clean("\n".join((says, *evidence)))
        if verdict is Verdict.PASS:
            Tree.SubElement(case, "system-out").text = text
        else:
            tag = "failure" if verdict is Verdict.FAIL else "error"
            Tree.SubElement(case, tag, message=_clean(says), type=str(verdict)).text = text
    Tree.indent(suite)
    return bytes(Tree.tostring(suite, encoding="utf-8", xml_declaration=True)) + b"\n"


def _clean(text: str) -> str:
    return text.translate(_FORBIDDEN)
