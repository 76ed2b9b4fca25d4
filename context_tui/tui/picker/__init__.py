"""The picker: the sessions that agents keep here."""
