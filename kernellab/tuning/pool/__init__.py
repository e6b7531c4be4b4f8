"""Workers of a sweep: processes that compile, run and time configs."""
