"""Make the nodes of slice views, without views, as the layout of 3D Slicer makes them."""

import slicer


def add_view(scene, tag: str, volume, orientation: str = "Axial"):
    """A slice node and what it shows; both outlive the closing of a scene, but not the kit's reset."""
    slice_node = scene.GetSingletonNode(tag, "vtkMRMLSliceNode")
    if slice_node is None:
        # with the orientations that the scene knows
        slice_node = scene.CreateNodeByClass("vtkMRMLSliceNode")
        slice_node.UnRegister(None)
        slice_node.SetSingletonTag(tag)
        slice_node.SetLayoutName(tag)
        slice_node.SetName(tag)
        slice_node.SetOrientation(orientation)
        slice_node = scene.AddNode(slice_node)
    composite = slicer.vtkMRMLSliceCompositeNode()
    composite.SetSingletonTag(tag)
    composite.SetLayoutName(tag)
    scene.AddNode(composite).SetBackgroundVolumeID(None if volume is None else volume.GetID())
    return slice_node
