"""What a translator cannot do, measured: noise, sources that are none, the gender of professions, words of several senses."""
