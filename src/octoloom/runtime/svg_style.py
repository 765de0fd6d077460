"""How a space-time diagram's picture looks: colours for light and dark pages, the tips of arrows, the legend."""

from __future__ import annotations

FONT = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif'
MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace'

LIGHT = {
    "page": "#ffffff",
    "ink": "#1f2933",
    "soft": "#66727f",
    "line": "#a9b4bf",
    "sent": "#1c64d1",
    "delivered": "#3d4b59",
    "held": "#c77700",
    "concurrent": "#a020a8",
    "early": "#d11f3a",
    "ordered": "#0b7f5b",
    "view": "#e4ebf3",
}
DARK = {
    "page": "#14181d",
    "ink": "#e6ebf0",
    "soft": "#95a1ae",
    "line": "#566370",
    "sent": "#6fa8ff",
    "delivered": "#b8c4d0",
    "held": "#f0a63a",
    "concurrent": "#e08aea",
    "early": "#ff6b7d",
    "ordered": "#4fd1a5",
    "view": "#26303b",
}


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())


ARROWS = ("delivered", "concurrent", "early", "ordered", "held")
"""Kinds of arrows, each in the colour of its name."""

STYLE = (
    f"""
svg {{ {_variables(LIGHT)} font-family: {FONT}; font-size: 13px; }}
@media (prefers-color-scheme: dark) {{ svg {{ {_variables(DARK)} }} }}
.page {{ fill: var(--page); }}
text {{ fill: var(--ink); stroke: var(--page); stroke-width: 4px; stroke-linejoin: round; paint-order: stroke; }}
.name {{ font-size: 16px; font-weight: 650; }}
.head {{ font-weight: 650; }}
.vector, .time {{ font-family: {MONO}; font-size: 12px; fill: var(--soft); }}
.time {{ text-anchor: end; }}
.note, .legend {{ font-size: 12px; }}
.legend {{ fill: var(--soft); }}
.lifeline {{ stroke: var(--line); stroke-width: 2; }}
.view {{ fill: var(--view); }}
.view-name {{ stroke: none; font-weight: 600; }}
line.held {{ stroke: var(--held); stroke-width: 6; stroke-dasharray: 7 4; }}
.message {{ fill: none; stroke-width: 1.7; }}
.message.cut {{ stroke-dasharray: 3 4; }}
.point {{ stroke: var(--page); stroke-width: 2; }}
.point.other {{ fill: var(--soft); }}
.point.held {{ fill: var(--page); stroke: var(--held); stroke-width: 2.5; }}
.point.sent {{ fill: var(--sent); }}
"""
    + "".join(
        f".message.{kind} {{ stroke: var(--{kind}); }} .tip.{kind}, .point.{kind}:not(.held), tspan.{kind} "
        f"{{ fill: var(--{kind}); }}\n"
        for kind in ARROWS
    )
    + ".message.ordered { stroke-dasharray: 6 4; }\n"
)

TIPS = "".join(
    f'<marker id="tip-{kind}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
    f'markerUnits="userSpaceOnUse" orient="auto"><path class="tip {kind}" d="M0 0L10 5L0 10z"/></marker>'
    for kind in ARROWS
)

LEGEND = (
    ("sent", '<circle class="point sent" cx="12" cy="-4" r="5"/>', "sent"),
    ("delivered", '<path class="message delivered" d="M0-4H24" marker-end="url(#tip-delivered)"/>', "delivered"),
    (
        "held",
        '<line class="held" x1="0" y1="-4" x2="24" y2="-4"/><circle class="point held" cx="0" cy="-4" r="5"/>',
        "came too early, held back",
    ),
    (
        "concurrent",
        '<path class="message concurrent" d="M0-4H24" marker-end="url(#tip-concurrent)"/>',
        "concurrent (‖)",
    ),
    ("early", '<path class="message early" d="M0-4H24" marker-end="url(#tip-early)"/>', "before its cause"),
    (
        "ordered",
        '<path class="message ordered" d="M0-4H24" marker-end="url(#tip-ordered)"/>',
        "to the coordinator, who orders",
    ),
)
"""(style of a mark, sample, words)"""
