"""The installed Python packages, and a folder that installs the program on a computer without network."""
