"""Campaigns: many cases in chunks, on a device, resumable, over any number of workers."""
