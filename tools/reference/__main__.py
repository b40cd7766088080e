"""Write the generated files into the current checkout."""

from tools.reference import write

write()
