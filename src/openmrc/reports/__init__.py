"""Reports: pages, pictures and tables of results, one module for each."""
