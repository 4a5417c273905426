"""Measurements of Tidemill and the experiments of the papers; not part of the installed package."""
