"""Types of the data of pages: JSON values that the scripts in ``assets`` read.

Numbers that are not finite are None.
"""
