"""A drawing of a fabric: one plane with its tiers, the other planes as layers behind it, the NICs below all of them.

Tiers with many switches show the first ones and the last; the total is printed at the side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from openmrc.charts.style import plane_colour
from openmrc.charts.svg import element, label, picture
from openmrc.fabric.cabling import NodeKind, up_t1s, up_t2s
from openmrc.fabric.model import Fabric

__all__ = ["draw_fabric", "shown"]

WIDTH, SIDE, RIGHT = 1040.0, 172.0, 1030.0
LAYERS_SPREAD, LAYER_STEP_MAX = 64.0, 9.0
ROW_HEIGHT, PLANE_PADDING = 92.0, 30.0
BOX_HEIGHT, BOX_WIDTH_MAX, NIC_WIDTH_MIN = 30.0, 84.0, 50.0
GAP_WIDTH = 26.0


@dataclass(frozen=True, slots=True)
class _Box:
    kind: NodeKind
    index: int
    x: float
    y: float
    width: float


def shown(number: int, limit: int) -> list[int | None]:
    """Indices to draw: all, or the first ones, None for the omitted ones, and the last."""
    if number <= limit:
        return list(range(number))
    return [*range(max(limit - 2, 1)), None, number - 1]


def _places(items: list[int | None], left: float, right: float) -> Iterator[tuple[int | None, float, float]]:
    """Each item with its left edge and width; the gap for omitted ones is small."""
    gaps = items.count(None)
    each = (right - left - gaps * GAP_WIDTH) / max(len(items) - gaps, 1)
    x = left
    for item in items:
        width = GAP_WIDTH if item is None else each
        yield item, x, width
        x += width


class _Drawing:
    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.step = min(LAYER_STEP_MAX, LAYERS_SPREAD / max(fabric.planes - 1, 1))
        self.spread = self.step * (fabric.planes - 1)
        self.left, self.right = SIDE, RIGHT - self.spread
        self.top = 12 + self.spread
        self.bottom = self.top + fabric.tiers * ROW_HEIGHT + PLANE_PADDING
        self.nic_y = self.bottom + 62
        self.lines: list[str] = []
        self.boxes: list[str] = []

    def row(self, kind: NodeKind) -> float:
        """Height of the middle of a tier's boxes."""
        level = {"t2": 0, "t1": self.fabric.tiers - 2, "t0": self.fabric.tiers - 1}[kind]
        return self.top + PLANE_PADDING / 2 + (level + 0.5) * ROW_HEIGHT

    def svg(self) -> str:
        """The whole picture."""
        t2s = self._switches("t2", shown(self.fabric.t2s, 7), 0, self.left + 10, self.right - 10)
        pods = shown(self.fabric.pods, 3)
        for pod, x, width in _places(pods, self.left + 10, self.right - 10):
            if pod is None:
                self._dots(x + width / 2, (self.row("t1") + self.row("t0")) / 2)
            else:
                self._pod(pod, x, x + width, t2s, only=len(pods) == 1)
        self._sides()
        height = self.nic_y + 46
        parts = [*self._layers(), *self.lines, *self.boxes]
        return picture(WIDTH, height, parts, f"{self.fabric.name}: one of {self.fabric.planes} planes, tier by tier")

    def _pod(self, pod: int, left: float, right: float, t2s: list[_Box], *, only: bool) -> None:
        fabric = self.fabric
        limit = 7 if only else max(int((right - left) // 62), 2)
        per_pod = fabric.t0s_per_pod or fabric.t0s
        t0s = min(per_pod, fabric.t0s - pod * per_pod)
        if not only:
            top, bottom = self.row("t1") - 34, self.row("t0") + 30
            frame = element(
                "rect",
                x=left + 4,
                y=top,
                width=right - left - 8,
                height=bottom - top,
                rx=10,
                fill="none",
                stroke="var(--line)",
                stroke_dasharray="4 4",
            )
            halo = {"stroke": "var(--card)", "stroke_width": 5, "paint_order": "stroke"}
            self.lines.append(frame)
            self.boxes.append(label(left + 12, top + 14, f"pod {pod}", **halo))
        t1s = self._switches("t1", shown(fabric.t1s, limit), pod * fabric.t1s, left, right)
        boxes = self._switches("t0", shown(t0s, limit), pod * per_pod, left, right)
        for t1 in t1s:
            for t2 in t2s:
                if t2.index in up_t2s(fabric, t1.index):
                    self._line(t1, t2)
        slot = (right - left) / max(len(boxes), 1)
        for t0 in boxes:
            for t1 in t1s:
                if t1.index in up_t1s(fabric, t0.index):
                    self._line(t0, t1)
            self._nics(t0, min(slot, right - left) - 10)

    def _switches(self, kind: NodeKind, items: list[int | None], first: int, left: float, right: float) -> list[_Box]:
        found, y = [], 0.0 if not items else self.row(kind)
        for item, x, width in _places(items, left, right):
            if item is None:
                self._dots(x + width / 2, y)
                continue
            size = min(BOX_WIDTH_MAX, width - 8)
            box = _Box(kind, first + item, x + width / 2, y, size)
            found.append(box)
            self._box(box, f"{kind.upper()} {box.index}" if size > 52 else str(box.index), plane_colour(0))
        return found

    def _nics(self, t0: _Box, room: float) -> None:
        fabric = self.fabric
        first = t0.index * fabric.hosts_per_t0
        number = min(fabric.hosts_per_t0, fabric.hosts - first)
        word = "host" if fabric.nics_per_host == 1 else "NIC"
        if number * (NIC_WIDTH_MIN + 6) <= room:
            each = min(room / number, BOX_WIDTH_MAX + 6)
            for place in range(number):
                x = t0.x + (place - (number - 1) / 2) * each
                box = _Box("host", first + place, x, self.nic_y, each - 6)
                name = f"{word} {box.index}" if each > 58 else str(box.index)
                self._line(box, t0, colour=plane_colour(0))
                self._box(box, name, "var(--soft)")
                self._ports(box)
            return
        size = max(min(room - 10, 96.0), 34.0)
        box = _Box("host", first, t0.x, self.nic_y, size)
        for shift in (-0.3, 0.0, 0.3):
            self._line(_Box("host", first, t0.x + shift * size, self.nic_y, size), t0, colour=plane_colour(0))
        for shift in (6.0, 3.0):
            behind = _Box("host", first, t0.x + shift, self.nic_y - shift, size)
            self._box(behind, "", "var(--soft)")
        self._box(box, f"{number:,} {word}s" if size > 72 else f"{number:,}", "var(--soft)")
        self._ports(box)

    def _ports(self, nic: _Box) -> None:
        """A dot for each plane that the NIC has a port in."""
        gap = min(9.0, nic.width / self.fabric.planes)
        for plane in range(self.fabric.planes):
            x = nic.x + (plane - (self.fabric.planes - 1) / 2) * gap
            y = nic.y + BOX_HEIGHT / 2 + 8
            self.boxes.append(element("circle", cx=x, cy=y, r=min(3.0, gap / 2.6), fill=plane_colour(plane)))

    def _box(self, box: _Box, text: str, colour: str) -> None:
        x, y = box.x - box.width / 2, box.y - BOX_HEIGHT / 2
        self.boxes.append(
            element(
                "rect",
                x=x,
                y=y,
                width=box.width,
                height=BOX_HEIGHT,
                rx=6,
                fill="var(--card)",
                stroke=colour,
                stroke_width=1.4,
            )
        )
        if text:
            self.boxes.append(label(box.x, box.y + 4, text, text_anchor="middle", class_="strong"))

    def _line(self, lower: _Box, upper: _Box, colour: str = "var(--soft)") -> None:
        self.lines.append(
            element(
                "line",
                x1=lower.x,
                y1=lower.y - BOX_HEIGHT / 2,
                x2=upper.x,
                y2=upper.y + BOX_HEIGHT / 2,
                stroke=colour,
                stroke_opacity=0.55,
                stroke_width=1.2,
            )
        )

    def _dots(self, x: float, y: float) -> None:
        self.boxes.append(label(x, y + 4, "···", text_anchor="middle", class_="strong"))

    def _layers(self) -> Iterator[str]:
        """The planes, the farthest first."""
        for plane in reversed(range(self.fabric.planes)):
            shift = plane * self.step
            yield element(
                "rect",
                x=self.left + shift,
                y=self.top - shift,
                width=self.right - self.left,
                height=self.bottom - self.top,
                rx=14,
                fill="var(--card)",
                stroke=plane_colour(plane),
                stroke_width=1.6,
            )

    def _sides(self) -> None:
        fabric = self.fabric
        counts: list[tuple[NodeKind, int, str]] = [
            ("t2", fabric.t2s, f"{fabric.pods:,} ports down"),
            ("t1", fabric.t1s_in_all, f"{fabric.t0s_per_pod or fabric.t0s:,} down"),
            ("t0", fabric.t0s, f"{fabric.hosts_per_t0:,} down, {fabric.t1s:,} up"),
        ]
        for kind, number, ports in counts:
            if number:
                more = f", {fabric.t1_uplinks:,} up" if kind == "t1" and fabric.t1_uplinks else ""
                self._side(self.row(kind), f"{kind.upper()}: {number:,} per plane", f"{ports}{more}")
        self._side(self.nic_y, f"NICs: {fabric.hosts:,}", "a port in each plane")

    def _side(self, y: float, name: str, more: str) -> None:
        self.boxes += [label(8, y - 3, name, class_="strong"), label(8, y + 14, more)]


def draw_fabric(fabric: Fabric) -> str:
    """The drawing as one `<svg>` element."""
    return _Drawing(fabric).svg()
