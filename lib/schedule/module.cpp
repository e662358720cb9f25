// Replaced as the module grows: a static library needs one source file.
