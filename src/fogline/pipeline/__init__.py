"""The stages that a row of a stream goes through, and what each of them keeps, whatever engine carries them."""
