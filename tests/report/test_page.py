from __future__ import annotations

import re

from ofediq.report.page import SkillCurve, skill_picture


def _texts(picture: str) -> list[tuple[float, float, str]]:
    found = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', picture)
    return [(float(x), float(y), text) for x, y, text in found]


def test_a_lowest_skill_near_zero_writes_over_nothing() -> None:
    marks = [
        text
        for _, _, text in _texts(skill_picture([SkillCurve("OFedIQ", [1, 2], [-0.001, 0.8])]))
        if "%" in text
    ]
    assert marks[:2] == ["+80%", "+0%"]


def test_many_methods_have_names_in_the_picture_side_by_side() -> None:
    curves = [SkillCurve(f"method {place}", [1, 2], [0.0, 0.1]) for place in range(9)]
    picture = skill_picture(curves)
    places = {(x, y) for x, y, text in _texts(picture) if text.startswith("method")}
    width, height = map(int, re.findall(r'viewBox="0 0 (\d+) (\d+)"', picture)[0])
    assert len(places) == 9
    assert max(x for x, _ in places) < width - 150
    assert max(y for _, y in places) < height


def test_no_two_curves_look_alike() -> None:
    picture = skill_picture([SkillCurve(f"method {place}", [1, 2], [0.0, 0.1]) for place in range(9)])
    looks = [re.sub('points="[^"]*"', "", line) for line in re.findall("<polyline[^>]*>", picture)]
    assert len(set(looks)) == 9


def test_a_long_curve_ends_where_its_name_says() -> None:
    skills = [0.5] * 999 + [0.1]
    picture = skill_picture([SkillCurve("long", range(1, 1001), skills), SkillCurve("end", [1000], [0.1])])
    long, end = re.findall('points="([^"]*)"', picture)
    assert end in long.split()
