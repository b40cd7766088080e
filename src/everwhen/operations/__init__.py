"""Operations: one function for each thing that a user can do. REST, the command line and Python call these."""
