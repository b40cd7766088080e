"""The release as users get it: wheel, source archive, extras, licences, and the systems that it runs on."""
