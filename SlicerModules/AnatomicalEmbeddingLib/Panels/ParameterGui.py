"""Binding a panel's widgets to a parameter node so that it can be undone."""

from __future__ import annotations

_PROPERTY = "SlicerParameterName"  # of a widget: the parameter that it shows


def connectGui(parameterNode, ui) -> int:
    """Bind the widgets that name a parameter; returns the tag that `parameterNode.disconnectGui` takes.

    The node's own connectGui keeps that tag to itself (Slicer issue 7547): its widgets would go on writing to the nodes
    of scenes that were closed, and be overwritten by them.
    """
    named = {widget.property(_PROPERTY): widget for widget in vars(ui).values()}
    return parameterNode.connectParametersToGui({name: widget for name, widget in named.items() if name})
