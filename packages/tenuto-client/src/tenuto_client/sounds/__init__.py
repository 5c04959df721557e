"""Where the sound is in a recording, whether all of it has arrived, and all of its samples.

`layout` finds the sounds of a file, which may be several that were joined, and what is missing of them.
`samples` decodes them one after the other. `client` and service read recordings with the same code.
"""
