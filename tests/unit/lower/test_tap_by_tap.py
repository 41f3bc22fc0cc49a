"""Planes of an image for products per element of a window, against windows counted by hand."""

from itertools import product

import pytest

from hlo2tx8.lower.select.tap_by_tap import TapPlane

CASES = (
    ((4, 5), (1, 1), (1, 1), (3, 3)),
    ((2, 3, 4), (1, 2, 2), (1, 1, 1), (1, 3, 3)),
    ((3, 4), (2, 1), (1, 2), (2, 3)),
    ((3, 3), (3, 2), (2, 3), (3, 2)),
    ((6,), (2,), (1,), (5,)),
)


@pytest.mark.parametrize(("results", "strides", "dilations", "taps"), CASES)
def test_a_product_reads_the_points_under_the_windows_element(
    results: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...], taps: tuple[int, ...]
) -> None:
    rank = range(len(results))
    extents = tuple((results[i] - 1) * strides[i] + (taps[i] - 1) * dilations[i] + 1 for i in rank)
    plane = TapPlane(results, extents, strides, dilations, taps)
    elements = list(product(*(range(count) for count in taps)))
    assert plane.rows <= plane.points
    for element, (number, point) in zip(elements, plane.places(), strict=True):
        assert point + plane.rows <= plane.points
        for result in product(*(range(count) for count in results)):
            row = sum(result[i] * plane.pitches[i] for i in rank)
            read = [result[i] * strides[i] + element[i] * dilations[i] for i in rank]
            residue = point_in_plane = 0
            for i in rank:
                residue = residue * strides[i] + read[i] % strides[i]
                point_in_plane += read[i] // strides[i] * plane.pitches[i]
            assert (number, point + row) == (residue, point_in_plane)
