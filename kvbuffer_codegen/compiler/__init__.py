"""From a form and a schedule to an artifact: TileLang program, device source, binary, manifest. Needs tilelang."""
