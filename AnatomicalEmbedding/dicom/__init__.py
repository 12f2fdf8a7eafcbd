"""DICOM objects other than CT images: segmentations, reports, registrations, and the exchange with a DICOMweb server.

highdicom and pydicom are imported late, because a plain installation may lack them.
"""
