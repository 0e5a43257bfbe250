"""The versions of a view: which one is served, where that is kept, and what a changed definition asks for."""
