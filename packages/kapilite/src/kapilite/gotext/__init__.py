"""Values as Go prints them: they are part of texts that people search for."""
