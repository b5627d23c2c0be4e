"""Minimal SVG: elements as escaped strings, and a plot area that maps values to points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


def element(tag: str, content: str = "", /, **attributes: object) -> str:
    """One element. `class_` and names with underscores become `class` and names with dashes; numbers are shortened."""
    text = "".join(f' {_name(name)}="{_value(value)}"' for name, value in attributes.items() if value is not None)
    return f"<{tag}{text}>{content}</{tag}>" if content else f"<{tag}{text}/>"


def label(x: float, y: float, text: str, **attributes: object) -> str:
    """A text element; the text is escaped."""
    return element("text", escape(text), x=x, y=y, **attributes)


def picture(width: float, height: float, parts: Iterable[str], title: str) -> str:
    """A whole `<svg>` that scales to its container; the title is read out by screen readers."""
    return element(
        "svg",
        f"<title>{escape(title)}</title>" + "".join(parts),
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        xmlns="http://www.w3.org/2000/svg",
    )


def path(points: Sequence[tuple[float, float]], *, close_at: float | None = None, **attributes: object) -> str:
    """A line through the points; with `close_at` the area between the line and that height."""
    if not points:
        return ""
    data = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    if close_at is not None:
        data += f"L{points[-1][0]:.1f} {close_at:.1f}L{points[0][0]:.1f} {close_at:.1f}Z"
    return element("path", d=data, **attributes)


@dataclass(frozen=True, slots=True)
class Plot:
    """A rectangle of the picture that shows x from x_min to x_max and y from 0 to y_max."""

    left: float
    top: float
    width: float
    height: float
    x_min: float
    x_max: float
    y_max: float

    @property
    def bottom(self) -> float:
        """The y of the horizontal axis in the picture."""
        return self.top + self.height

    @property
    def right(self) -> float:
        """The x of the right edge in the picture."""
        return self.left + self.width

    def x(self, value: float) -> float:
        """Horizontal position of a value, kept inside the rectangle."""
        share = (value - self.x_min) / (self.x_max - self.x_min) if self.x_max > self.x_min else 0.0
        return self.left + self.width * min(max(share, 0.0), 1.0)

    def y(self, value: float) -> float:
        """Vertical position of a value, kept inside the rectangle."""
        share = value / self.y_max if self.y_max > 0 else 0.0
        return self.bottom - self.height * min(max(share, 0.0), 1.0)


def ticks(maximum: float, about: int = 4) -> list[float]:
    """Round numbers from 0 up to the maximum, about that many steps."""
    if maximum <= 0:
        return [0.0]
    step = 10.0**-9
    for candidate in (mantissa * 10.0**power for power in range(-9, 24) for mantissa in (1, 2, 2.5, 5)):
        if maximum / candidate <= about:
            step = candidate
            break
    return [step * index for index in range(int(maximum / step + 1e-9) + 1)]


def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(str(value))
