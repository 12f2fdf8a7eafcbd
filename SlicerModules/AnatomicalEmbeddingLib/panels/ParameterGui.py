"""Binding a panel's widgets to a parameter node so that it can be undone."""

from __future__ import annotations

from collections.abc import Callable

_PROPERTY = "SlicerParameterName"  # of a widget: the parameter that it shows


def connectGui(parameterNode, ui) -> Callable[[], None]:
    """Bind the widgets that name a parameter; returns the function that undoes it.

    The node's own connectGui cannot be undone: it keeps the tag to itself that disconnectGui takes (Slicer issue 7547),
    and an observer would stay on the node and keep `parameterNode` alive.
    """
    named = {widget.property(_PROPERTY): widget for widget in vars(ui).values()}
    observers = []

    def addObserver(*arguments):
        observers.append(parameterNode.parameterNode.AddObserver(*arguments))
        return observers[-1]

    parameterNode.AddObserver = addObserver
    try:
        tag = parameterNode.connectParametersToGui({name: widget for name, widget in named.items() if name})
    finally:
        del parameterNode.AddObserver

    def disconnect():
        parameterNode.disconnectGui(tag)
        for observer in observers:
            parameterNode.RemoveObserver(observer)

    return disconnect
