"""Drawing tools of pages and pictures: SVG elements, rasters, colours, the style sheet."""
