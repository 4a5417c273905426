"""Measurements of Tidemill and experiments of the papers; not part of the installed package."""
